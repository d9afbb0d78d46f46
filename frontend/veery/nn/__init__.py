"""Functions of neural networks."""

from veery._core.absent import attributes as _attributes
from veery.nn import initializers as initializers
from veery.nn._activations import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    identity as identity,
    leaky_relu as leaky_relu,
    log1mexp as log1mexp,
    log_sigmoid as log_sigmoid,
    mish as mish,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softplus as softplus,
    sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid,
    squareplus as squareplus,
    swish as swish,
)
from veery.nn._attention import dot_product_attention as dot_product_attention
from veery.nn._normalisation import (
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    one_hot as one_hot,
    softmax as softmax,
    standardize as standardize,
)
from veery.nn._scaled_products import (
    get_scaled_dot_general_config as get_scaled_dot_general_config,
    scaled_dot_general as scaled_dot_general,
    scaled_matmul as scaled_matmul,
)
from veery.numpy import tanh as tanh

__getattr__, __dir__ = _attributes(__name__)
