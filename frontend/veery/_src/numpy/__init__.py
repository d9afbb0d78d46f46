from veery._src.numpy import util as util
