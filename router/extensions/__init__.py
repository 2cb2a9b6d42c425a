"""Extensions: the registry, and the pipeline that calls them.

    model      decides: entries, pipeline, breakers' permits, providers, health. No broker in it
    store      the bucket of the registry: followed, and written by operators
    invoker    joins the calls of `model` with the connection, metrics and log
    instances, pipeline_services   what operators ask of all instances
    commands, page, mend           what operators type, see and change

`sdk.extension` is what authors of extensions import.
"""
