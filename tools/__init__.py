"""Programs that build what a release contains. Nothing in the packages imports them."""
