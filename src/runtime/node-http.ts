/**
 * Node's HTTP without an import: that would evaluate all that node:http exports, `fetch` and `WebSocket` among it, which nobody here uses,
 * and keep 20 MB for it.
 */
export const http = process.getBuiltinModule('node:http')
