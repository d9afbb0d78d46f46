"""Names of `checkpoint` that are not needed often: `checkpoint_name`, policies' answers, what is kept."""

from veery._api.checkpoint import Offloadable as Offloadable
from veery._api.checkpoint import Recompute as Recompute
from veery._api.checkpoint import Saveable as Saveable
from veery._api.checkpoint import checkpoint as checkpoint
from veery._api.checkpoint import checkpoint_name as checkpoint_name
from veery._api.checkpoint import checkpoint_policies as checkpoint_policies
from veery._api.checkpoint import print_saved_residuals as print_saved_residuals
from veery._api.checkpoint import remat as remat
from veery._api.checkpoint import saved_residuals as saved_residuals
