from veery._transforms import custom_rules

CustomVJPException = custom_rules.CustomRuleError
