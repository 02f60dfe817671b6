// Portkey's package has no types.

declare module '@portkey-ai/gateway/build/start-server.js'
