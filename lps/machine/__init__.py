"""Know this machine: devices, processes, memory, background jobs. Imports errors and files; `usage`, which is for
pages, also psutil and the driver's library.
"""
