from veery._api.gradient_checks import check_close as check_close
