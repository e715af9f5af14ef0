"""The gateway: a server between any client and four provider APIs. Untouched bytes stay untouched.

`app` receives, `routes` says where a request goes, `pipeline` takes it through a passage, `relay` carries it to the
provider and back, `admin` answers what is ours. Imports `observe`, `transport` and below; decides nothing about caches.
"""
