from veery.lax._stop_gradient import stop_gradient_p as stop_gradient_p
