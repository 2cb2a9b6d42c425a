"""Provider services for real HTTP APIs: `router provider run NAME --kind openai`.

    router ── beamline.provider.{id}.{version} ──> service ──> a kind ──> upstream ── HTTP ──> the API

service         one provider: what is asked is read, given to its kind, and answered or streamed
api_call        what is asked of an API, read and bounded; a plain prompt becomes a chat
models          which models there are: of a file, or as the API lists them
kinds/          one file for each API that is spoken; each answers in OpenAI's shape
    chat        OpenAI's shapes that the other kinds build, and what is read of them
    openai      every compatible server: what is asked and answered passes through
    anthropic_request, anthropic        `/v1/messages`, mapped both ways
    ollama      `/api/chat`, mapped both ways
    echo        answers itself, without a network
upstream        one HTTP call: its bounds, its times, its errors as failures of the SDK
event_lines     lines and server-sent events out of the bytes that come
key_file        the key, read from its file alone, and again when the file changes

Policies, prices, budgets and breakers are the router's; HTTP clients are the gateway's.
"""
