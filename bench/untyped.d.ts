// The package of the benchmark that ships no types.

declare module '@portkey-ai/gateway/build/start-server.js'
