"""The frames that commands and pages are written in. `cli` and `console` are the two programs made
of them.

command_frame, session, options, output, exit_codes   a command: options, a connection, one way to
                                                      print, an exit status
page_data, table, rendering, templates                a page: data first, then HTML, CSV or JSON
pages                                                 every page, in the order of the navigation
access, mend                                          who may see and write; the frame of each write
broker_link, sampler, scrape, figures                 what a console knows of routers and broker
"""
