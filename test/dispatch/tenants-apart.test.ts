import { expect, onTestFinished, test } from 'vitest'
import type { WebSocket } from 'ws'
import { dial } from '../../src/market/agent/dial.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import { addAgentHoster, idleConnections } from '../agent/agent-world.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const AGENT_ID = '0197f0a0-0000-7000-8000-000000000003'
const ROUNDS = 5

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })

/** Sends requests of three customers to one hoster, several at once and one after the other. Each prompt names its customer. */
async function sendForThree(hosterId: string): Promise<void> {
  const customers = [await app.customer(), await app.customer(), await app.customer()]
  for (let round = 0; round < ROUNDS; round++) {
    const responses = await Promise.all(
      [...customers, ...customers].map(customer =>
        app.chat(customer, {
          model: 'test-model',
          messages: [{ role: 'user', content: customer.customerId }],
          allow_hosters: [hosterId],
        }),
      ),
    )
    expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 200))
    await Promise.all(responses.map(response => response.text()))
  }
}

test('two tenants can never meet on one hoster connection: direct', async () => {
  const customersOf = new Map<unknown, string[]>()
  upstream.always((request, response) => {
    const { socket } = response
    customersOf.set(socket, [...(customersOf.get(socket) ?? []), String(request.body.messages![0]!.content)])
    return answer()(request, response)
  })
  const hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  let rounds = 0
  // A connection is reused a short time after its answer: send until one was.
  do {
    await sendForThree(hosterId)
    rounds += ROUNDS
  } while (customersOf.size === rounds * 6)
  const seen = [...customersOf.values()]
  expect(seen.flat()).toHaveLength(rounds * 6)
  expect(seen.map(customers => new Set(customers).size)).toEqual(seen.map(() => 1))
})

test('two tenants can never meet on one hoster connection: agent', async () => {
  const { hosterId, key } = await addAgentHoster(app)
  const requests: number[] = []
  const sockets: WebSocket[] = []
  onTestFinished(() => {
    for (const socket of sockets) socket.terminate()
  })
  const connect = async (path: string) => {
    const dialled = await dial({ gateway: app.url, path, key, agentId: AGENT_ID })
    if (dialled.kind === 'refused') throw new Error(dialled.message)
    sockets.push(dialled.socket)
    return dialled.socket
  }
  // An agent that keeps its connections open after an answer, and would serve further requests on them.
  const control = await connect(CONTROL_PATH)
  let [idle, wanted] = [0, 0]
  const open = async (): Promise<void> => {
    while (idle < wanted) {
      idle++
      const index = requests.push(0) - 1
      const socket = await connect(DATA_PATH)
      let text = ''
      socket.on('message', data => {
        text += String(data)
        const body = text.split('\r\n\r\n')[1]
        if (!body?.endsWith('}')) return
        text = ''
        if (requests[index]!++ === 0) idle--
        socket.send(Buffer.from(WHOLE_ANSWER))
        void open()
      })
      socket.resume()
    }
  }
  control.on('message', data => {
    const message = JSON.parse(String(data)) as { type: string; idle: number }
    if (message.type !== 'stock') return
    wanted = message.idle
    void open()
  })
  control.resume()
  control.send(JSON.stringify({ type: 'announce', version: '1', slots: 8, models: [{ id: 'test-model', slots: 8 }] }))
  control.send(JSON.stringify({ type: 'status', state: 'open', free_slots: 8 }))
  await idleConnections(app, 8)
  await sendForThree(hosterId)
  const used = requests.filter(count => count > 0)
  expect(used).toEqual(Array.from({ length: ROUNDS * 6 }, () => 1))
  // All connections that the agent was about to open are open.
  await idleConnections(app, 8)
  wanted = 0
})

const COMPLETION = JSON.stringify({
  id: 'x',
  object: 'chat.completion',
  created: 1,
  model: 'test-model',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const WHOLE_ANSWER = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${COMPLETION.length}\r\n\r\n${COMPLETION}`
