"""Documents to begin with: policies that the demo and `router serve --embedded` use."""
