import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'vitest'
import { systemClock } from '../../base/runtime/scheduler.ts'
import { type Answer, answerInChunks, answerWhole } from './answer-chat.ts'
import { parseChatRequest } from './chat-request.ts'
import { loadDemoLanguage, textPieces } from './demo-language.ts'

const language = loadDemoLanguage()

/** An answer that never ends, with promises for its first token and for the end of its generation. */
function endlessAnswer(speed: Answer['speed']) {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  function* pieces() {
    begin()
    try {
      for (;;) yield* textPieces('on and on ')
    } finally {
      end()
    }
    return 'stop' as const
  }
  const generator = pieces()
  const answer: Answer = {
    head: { id: 'chatcmpl-1', created: 1, model: 'demo' },
    request: parseChatRequest({ model: 'demo', messages: [{ role: 'user', content: 'hi' }] }),
    promptTokens: 1,
    replies: [{ index: 0, toolCall: null, pieces: generator, tokens: () => 0 }],
    language,
    clock: systemClock,
    speed,
  }
  return { answer, begun, ended }
}

test.each([
  ['a stream', answerInChunks, 1_000],
  ['an unread stream', answerInChunks, 1_000_000],
  ['a complete answer', answerWhole, 1_000],
])('stops generating %s when its client disconnects', async (name, give, tokensPerSecond) => {
  const { answer, begun, ended } = endlessAnswer({ tokensPerSecond, firstTokenMs: 0 })
  const server = createServer((_request, response) => {
    give(answer, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = new AbortController()
  const asked = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { signal: client.signal })
  if (give === answerInChunks) {
    const { body } = await asked
    if (!name.includes('unread')) await body!.getReader().read()
  }
  await begun
  client.abort()
  await asked.catch(() => undefined)
  await ended
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})
