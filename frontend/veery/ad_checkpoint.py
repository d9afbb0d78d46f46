"""Names of `checkpoint` that are not needed often: `checkpoint_name`, policies' answers, what is kept."""

from veery._api.checkpoint import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint as checkpoint,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
    print_saved_residuals as print_saved_residuals,
    remat as remat,
    saved_residuals as saved_residuals,
)
