import { randomUUID } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { parseSync, type StringLiteral, type TemplateLiteral, type TsType } from '@swc/core'
import { Visitor } from '@swc/core/Visitor.js'
import { expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from '../supply/random-market.ts'
import { type AskedRequest, auditWorld, sharedRequest, talker } from './audit-world.ts'
import { createCustomers, createHoster } from './trust-world.ts'

// A hoster that knows the source of this program must not recognise its requests.

const database = useTestDatabase()
const lastOf = ({ body }: Pick<AskedRequest, 'body'>) => body.messages.at(-1)!.content
const isHoster = ({ server }: AskedRequest) => server.endpoint.kind === 'hoster'
const isWriting = (request: AskedRequest) => request.body.max_tokens === 1_500
const gap = { fields: {}, gapMs: 30_000 }

/** Every four words in a row of the strings in src/market/trust, if they have 12 characters. */
function runsOfSource(): Set<string> {
  const runs = new Set<string>()
  const add = (text: string) => {
    const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
    for (let at = 0; at + 4 <= words.length; at++) runs.add(words.slice(at, at + 4).join(' '))
  }
  class Strings extends Visitor {
    override visitStringLiteral(literal: StringLiteral) {
      add(literal.value)
      return literal
    }
    override visitTemplateLiteral(literal: TemplateLiteral) {
      for (const { cooked } of literal.quasis) add(String(cooked ?? ''))
      return literal
    }
    override visitTsType(type: TsType) {
      return type
    }
  }
  for (const file of globSync('src/market/trust/**/*.ts')) {
    new Strings().visitModule(parseSync(readFileSync(file, 'utf8'), { syntax: 'typescript', target: 'es2024' }))
  }
  return new Set([...runs].filter(run => run.length >= 12))
}

test.each([
  ['of customers', 50, 40],
  ['of references', 0, 100],
])('nothing that a hoster gets in 200 audits is in the source: texts %s', async (_, shared, least) => {
  const runs = runsOfSource()
  expect(runs.size).toBeGreaterThan(500)
  const talk = talker()
  const random = createRandom(5)
  const customers = await createCustomers(database, 5)
  const world = await auditWorld(database, {
    shared: Array.from({ length: shared }, (_, at) =>
      sharedRequest({ customerId: customers[at % 5]!, body: { messages: [{ role: 'user', content: talk() }] } }),
    ),
    ownCanaries: [{ prompt: 'Which lamp is lit on platform nine after dusk?', answers: ['amber'], maxTokens: 60 }],
    answer(request) {
      if (!isWriting(request)) return `amber ${talk()}`
      // Models repeat what they were asked, introduce their text or put it between quotation marks.
      if (random.chance(0.2)) return lastOf(request)
      const text = lastOf(request).includes('===') ? `${talk()}\n===\n${talk()}` : talk()
      return random.chance(0.3) ? `Here is the message:\n\n"${text}"` : text
    },
  })
  await world.audit(200)
  const texts = world.sent().flatMap(({ body }) => body.messages.map(({ content }) => content))
  expect(texts.length).toBeGreaterThan(least)
  for (const text of texts) {
    expect(text).not.toMatch(/Here is|===|["“]|platform nine/)
    const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
    for (let at = 0; at + 4 <= words.length; at++) expect(runs).not.toContain(words.slice(at, at + 4).join(' '))
  }
  const values = world.sent().flatMap(({ body: { messages: _, ...fields } }) => Object.values(fields))
  expect(values.filter(value => typeof value === 'string')).toEqual([])
  const openings = world.sent().map(({ body }) => body.messages[0]!.content)
  expect(new Set(openings).size).toBeGreaterThanOrEqual(least)
})

test("a customer's conversation is repeated turn by turn, with the hoster's own answers and pauses like real ones", async () => {
  const [customerId] = await createCustomers(database, 1)
  const messages = [
    { role: 'system', content: 'Be brief.' },
    ...[1, 2, 3, 4, 5, 6].flatMap(turn => [
      { role: 'user', content: `question ${turn}` },
      { role: 'assistant', content: `recorded ${turn}` },
    ]),
    { role: 'user', content: 'question 7' },
  ]
  const world = await auditWorld(database, {
    shared: [
      sharedRequest({
        customerId: customerId!,
        body: { messages, temperature: 0, max_tokens: 90, stream: true },
        identifiers: { user: 'anna' },
      }),
    ],
    manners: [gap],
    seed: 8,
    answer: request => (isHoster(request) ? `own to ${lastOf(request)}` : `reference to ${lastOf(request)}`),
  })
  await world.audit()
  expect(world.sent().map(lastOf)).toEqual(['question 1', 'question 2', 'question 3', 'question 4'])
  expect(world.sent()[2]!.body).toEqual({
    ...{ temperature: 0, max_tokens: 90, stream: true, user: 'anna' },
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'question 1' },
      { role: 'assistant', content: 'own to question 1' },
      { role: 'user', content: 'question 2' },
      { role: 'assistant', content: 'own to question 2' },
      { role: 'user', content: 'question 3' },
    ],
  })
  expect(world.pauses).toEqual([30_000, 30_000, 30_000])
  expect(new Set(world.sent().map(({ visit }) => visit)).size).toBe(1)
  expect(new Set(world.sent().map(({ pseudonymsOf }) => pseudonymsOf))).toEqual(new Set([customerId]))
  // The reference gets the same messages, and only it is asked for log probabilities.
  for (const { body } of world.sent()) {
    const asked = world.asked().find(other => lastOf(other) === body.messages.at(-1)!.content)!.body
    expect(asked).toEqual({ messages: body.messages, temperature: 0, max_tokens: 90, logprobs: true, top_logprobs: 20 })
  }
  const row = { source: 'replay', customer_id: customerId, kind: 'words', value: 1 }
  expect(await world.compared()).toEqual([row, row, row, row])
})

test('a conversation is no more requests a day: later audits are left out for its turns', async () => {
  const [customerId] = await createCustomers(database, 1)
  const messages = [1, 2, 3].flatMap(turn => [
    { role: 'user', content: `question ${turn}` },
    { role: 'assistant', content: 'recorded' },
  ])
  const shared = [1, 2].map(at =>
    sharedRequest({
      customerId: customerId!,
      body: { messages: [{ role: 'system', content: `Application ${at}` }, ...messages.slice(0, -1)] },
    }),
  )
  const world = await auditWorld(database, { shared, seed: 8, answer: () => 'a word' })
  await world.audit()
  expect(world.sent()).toHaveLength(3)
  await world.audit(2)
  expect(world.sent()).toHaveLength(3)
  await world.audit()
  expect(world.sent().length).toBeGreaterThan(3)
})

test('a request with tools is repeated once, as it was sent', async () => {
  const [customerId] = await createCustomers(database, 1)
  const body = {
    tools: [{ type: 'function', function: { name: 'look_up' } }],
    messages: [
      { role: 'user', content: 'Look it up.' },
      { role: 'assistant', content: 'I do.' },
      { role: 'user', content: 'And?' },
    ],
  }
  const world = await auditWorld(database, {
    shared: [sharedRequest({ customerId: customerId!, body })],
    seed: 8,
    answer: () => 'done',
  })
  await world.audit()
  expect(world.sent().map(({ body }) => body)).toEqual([body])
})

const otherHoster = randomUUID()

test.each([
  ['no constraint', {}, true],
  ['this hoster denied', { denyHosters: 'this' }, false],
  ['only other hosters allowed', { allowHosters: new Set([otherHoster]) }, false],
  ['only this hoster allowed', { allowHosters: 'this' }, true],
  ['trusted_only', { trustedOnly: true }, false],
  ['a price cap below', { maxOutputPicoPerToken: 1n }, false],
  ['a price cap above', { maxOutputPicoPerToken: 900_000n }, true],
  ['a latency limit', { maxLatencyMs: 500 }, false],
])('a request with %s is repeated: %#', async (_, given, isSent) => {
  const [customerId] = await createCustomers(database, 1)
  const world = await auditWorld(database, { seed: 8, answer: () => null })
  const request = sharedRequest({ customerId: customerId! })
  const constraints = Object.entries(given).map(([name, value]) => [
    name,
    value === 'this' ? new Set([world.hosterId]) : value,
  ])
  world.shared.add({ ...request, constraints: { ...request.constraints, ...Object.fromEntries(constraints) } })
  await world.audit()
  expect(world.sent()).toHaveLength(isSent ? 1 : 0)
  // What this hoster may not see stays for others.
  expect(world.shared.take('m', randomUUID(), new Set())?.customerId).toBe(isSent ? undefined : customerId)
})

test('with privacy_mode, no cloud sees a request', async () => {
  const [customerId] = await createCustomers(database, 1)
  const request = sharedRequest({ customerId: customerId! })
  const shared = [{ ...request, constraints: { ...request.constraints, privacyMode: true } }]
  const world = await auditWorld(database, {
    servers: [offerOf({ kind: 'cloud' })],
    shared,
    seed: 8,
    answer: () => null,
  })
  await world.audit()
  expect(world.requests.filter(asked => !isWriting(asked))).toEqual([])
})

test('a conversation that another node has sent to the hoster is not repeated, nor a request that its customer cannot pay', async () => {
  const [customerId, poor] = (await createCustomers(database, 2)) as [string, string]
  const requestOf = (of: string, content: string) =>
    sharedRequest({ customerId: of, body: { messages: [{ role: 'user', content }] } })
  const [known, long, fresh] = ['known', 'long', 'fresh'].map(content => requestOf(customerId, content)) as [
    ReturnType<typeof requestOf>,
    ReturnType<typeof requestOf>,
    ReturnType<typeof requestOf>,
  ]
  const world = await auditWorld(database, {
    shared: [known, long, requestOf(poor, 'poor'), fresh],
    answer: () => 'It turns twice a day.',
    cost: ({ messages }) => (messages.at(-1)!.content === 'long' ? 11n : 1n),
    canPay: of => of !== poor,
  })
  await world.seen.claim(known.conversation, [world.hosterId])
  await world.audit(10)
  const texts = world.sent().map(lastOf)
  expect(texts).toContain('fresh')
  for (const text of ['known', 'long', 'poor']) expect(texts).not.toContain(text)
})

test('requests of customers that are related to the hoster are not sent to it', async () => {
  const [customerId] = await createCustomers(database, 1)
  const world = await auditWorld(database, {
    shared: [sharedRequest({ customerId: customerId! })],
    seed: 8,
    answer: request => (isWriting(request) ? null : 'a word'),
  })
  await database.pool.query(
    'INSERT INTO hoster_account (hoster_id, customer_id) VALUES ($1, $2) ON CONFLICT (hoster_id) DO UPDATE SET customer_id = $2',
    [world.hosterId, customerId],
  )
  await world.audit(3)
  expect(world.sent()).toEqual([])
})

test('temperature, limits and streaming follow the requests of customers', async () => {
  const talk = talker()
  const manners = [
    { fields: { temperature: 0.35, max_tokens: 333 }, gapMs: 30_000 },
    { fields: { stream: true }, gapMs: 45_000 },
  ]
  const world = await auditWorld(database, { manners, answer: talk })
  await world.audit(40)
  const fields = world.sent().map(({ body: { messages: _, ...rest } }) => JSON.stringify(rest))
  expect(new Set(fields)).toEqual(new Set(manners.map(one => JSON.stringify(one.fields))))
  for (const pause of world.pauses) expect([30_000, 45_000]).toContain(pause)
  expect((await world.compared()).every(({ source, customer_id: of }) => source === 'prompt' && of === null)).toBe(true)
})

test('before any traffic, about half of the requests are streamed, and most name no temperature', async () => {
  const world = await auditWorld(database, { answer: talker() })
  await world.audit(150)
  const part = (matches: (body: AskedRequest['body']) => boolean) =>
    world.sent().filter(({ body }) => matches(body)).length / world.sent().length
  expect(part(({ stream }) => stream === true)).toBeGreaterThan(0.35)
  expect(part(({ stream }) => stream === true)).toBeLessThan(0.65)
  expect(part(({ temperature }) => temperature === undefined)).toBeGreaterThan(0.4)
  expect(part(body => 'logprobs' in body)).toBe(0)
})

test('prompts are written in the manner of the corpus, and do not repeat it', async () => {
  const talk = talker(9)
  const corpus = Array.from({ length: 5 }, () => `${talk()} ${talk()} ${talk()}`)
  let copies = 0
  const world = await auditWorld(database, {
    corpus,
    answer(request) {
      if (!isWriting(request)) return 'a word'
      const [passage] = lastOf(request).split('\n').slice(1)
      return lastOf(request).startsWith('<passage>') && copies++ % 2 === 0 ? passage! : talk()
    },
  })
  await world.audit(30)
  const writing = world.asked().filter(isWriting)
  expect(writing.some(request => corpus.some(text => lastOf(request).includes(text)))).toBe(true)
  expect(world.sent().length).toBeGreaterThan(20)
  for (const request of world.sent()) for (const text of corpus) expect(lastOf(request)).not.toContain(text)
})

const PROMPT = 'Which lamp is lit on platform nine after dusk?'
const ownCanaries = [{ prompt: PROMPT, system: 'Answer with a colour.', answers: ['amber'], maxTokens: 60 }]
const isRewriting = (request: AskedRequest) => lastOf(request).includes(PROMPT)

test("the operator's prompts are rewritten by the reference, and asked again hours after a failure", async () => {
  const talk = talker()
  const world = await auditWorld(database, {
    ownCanaries,
    answer(request) {
      if (isRewriting(request)) return `colour ${talk()}`
      if (isWriting(request)) return talk()
      return isHoster(request) ? 'green' : 'It is amber.'
    },
  })
  const canaries = () => world.sent().filter(request => lastOf(request).startsWith('colour'))
  for (let n = 0; n < 60 && canaries().length === 0; n++) await world.audit()
  expect(canaries()).toHaveLength(1)
  await world.audit(30)
  expect(canaries()).toHaveLength(1)
  world.advance(6 * 3_600_000)
  await world.audit()
  expect(canaries()).toHaveLength(2)
  expect(new Set(canaries().map(lastOf)).size).toBe(2)
  expect((await world.audits()).filter(({ kind }) => kind === 'canary')).toEqual([
    expect.objectContaining({ statistic: 2 }),
  ])
  for (const request of world.sent()) expect(JSON.stringify(request.body)).not.toMatch(/platform nine|Answer with/)
})

test.each([
  ['fails it itself', 'colour of the lamp', 'I do not know.'],
  ['repeats the prompt', `Tell me: ${PROMPT.toLowerCase()}`, 'amber'],
  ['gives the answer away', 'Is the lamp amber?', 'amber'],
])('a prompt of the operator is not sent where the reference %s', async (_, rewritten, known) => {
  const talk = talker()
  const world = await auditWorld(database, {
    ownCanaries,
    answer(request) {
      if (isRewriting(request)) return rewritten
      if (isWriting(request)) return talk()
      return isHoster(request) ? 'green' : known
    },
  })
  await world.audit(60)
  expect(world.asked().some(isRewriting)).toBe(true)
  expect(world.sent().filter(request => lastOf(request) === rewritten)).toEqual([])
  expect((await world.audits()).filter(({ kind }) => kind === 'canary')).toEqual([])
})

async function hosters(count: number) {
  const created = await Promise.all(Array.from({ length: count }, () => createHoster(database)))
  return created.map(({ hosterId, endpointId }) => offerOf({ kind: 'hoster', hosterId, name: endpointId }))
}

test('without a reference, hosters are compared by requests of customers, minutes apart', async () => {
  const customers = await createCustomers(database, 4)
  const shared = customers.map((customerId, at) =>
    sharedRequest({ customerId, body: { messages: [{ role: 'user', content: `question ${at}` }] } }),
  )
  const servers = await hosters(2)
  const world = await auditWorld(database, { servers, shared, manners: [gap], answer: () => 'one two' })
  await world.audit()
  // Another hoster of the panel would recognise them, too.
  for (const { endpoint } of servers) {
    const conversations = shared.map(({ conversation }) => conversation)
    expect(await world.seen.seenBy([endpoint.hosterId!], conversations)).toEqual(new Set(conversations))
  }
  expect(world.sent().map(lastOf)).toEqual(['question 0', 'question 1', 'question 2', 'question 3'])
  expect(world.sent().map(({ pseudonymsOf }) => pseudonymsOf)).toEqual(customers)
  expect(world.sent().every(({ body }) => body.temperature === 0 && !('logprobs' in body))).toBe(true)
  expect(world.pauses).toEqual([30_000, 30_000, 30_000])
  expect((await world.audits()).map(({ kind }) => kind)).toEqual(['agreement'])
})

test('log probabilities are asked of hosters only where customers ask for them', async () => {
  const manners = [{ fields: { logprobs: true, top_logprobs: 3 } as never, gapMs: 30_000 }]
  const world = await auditWorld(database, { servers: await hosters(2), manners, answer: () => 'one two' })
  await world.audit()
  expect(world.sent()).toHaveLength(4)
  expect(world.sent().every(({ body }) => body.logprobs === true)).toBe(true)
})

test('built-in canaries are for models that nothing else can audit', async () => {
  const alone = await auditWorld(database, { servers: await hosters(1), answer: () => 'no' })
  await alone.audit(3)
  expect((await alone.audits()).map(({ kind }) => kind)).toEqual(['canary'])
  expect(alone.pauses).toEqual([])
  const own = await auditWorld(database, { servers: [], ownCanaries, answer: () => 'amber' })
  await own.audit(3)
  expect(own.sent().map(lastOf)).toEqual([PROMPT, PROMPT, PROMPT])
  const panel = await auditWorld(database, { servers: await hosters(2), answer: () => 'one two' })
  await panel.audit(5)
  expect(new Set((await panel.audits()).map(({ kind }) => kind))).toEqual(new Set(['agreement']))
})
