from veery._src.scipy import special as special
