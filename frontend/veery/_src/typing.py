from veery.typing import SupportsDType as SupportsDType
