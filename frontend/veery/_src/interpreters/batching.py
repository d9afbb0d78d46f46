from veery.interpreters.batching import is_vmappable as is_vmappable
