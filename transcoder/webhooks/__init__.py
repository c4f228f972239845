"""Webhooks: jobs' owners are told what happened, by signed requests that are repeated until they are taken.

`outbox` writes what is to be told in the transaction of what happened; `courier` delivers it, as often and as long as
`schedule` says. Neither touches a job.
"""
