"""The frames of commands, pages and processes. `cli` and `console` are the two programs made of the
first two.

command_frame, session, options, output, exit_codes   a command: options, a connection, one way to
                                                      print, an exit status
host, signals                                         a process: connections, tree, pages for
                                                      operators, its end
page_data, table, rendering, templates                a page: data first, then HTML, CSV or JSON
pages                                                 every page, in the order of the navigation
access, mend                                          who may see and write; the frame of each write
broker_link, sampler, scrape, figures                 what a console knows of routers and broker
"""
