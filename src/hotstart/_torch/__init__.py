"""torch's private names, and nothing else.

Every name of torch that carries no promise is used in this package only, each module saying which
versions it was checked on. The rest of hotstart calls what is defined here.
"""
