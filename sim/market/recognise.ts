import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { HosterOffer, Offer } from '../../src/base/domain/offer.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { drawGapMs } from '../../src/market/trust/audits/draw-manners.ts'
import { drawText } from '../../src/market/trust/audits/draw-text.ts'
import { PromptStock } from '../../src/market/trust/audits/prompt-stock.ts'
import type { Message } from '../../src/market/trust/audits/replay.ts'
import { createRecentManners } from '../../src/market/trust/audits/request-samples.ts'
import { createConversationNames } from '../../src/market/trust/audits/seen-conversations.ts'
import { createSharedRequests } from '../../src/market/trust/audits/shared-requests.ts'
import { createRandom, type Random } from '../random.ts'
import { areaUnderCurve, featuresOf, type SeenRequest, trainClassifier } from './classifier.ts'

/** How well a hoster tells requests of the gateway from those of customers. */
export interface Recognition {
  readonly requests: number
  readonly audits: number
  /** Area under the curve of the receiver: 0.5 by chance, 1 if all are recognised. */
  readonly auc: number
}

const DAYS = 30
const DAY_MS = 86_400_000
const CUSTOMERS = 24
/** Conversations of one customer a day, with all hosters. */
const CONVERSATIONS_A_DAY = 30
const HOSTERS = 6
/** A conversation stays with its hoster, with few exceptions. */
const STICKY = 0.9
const AUDIT_PAUSE_MS = 600_000
const MODEL = 'm'

/**
 * Trains a classifier on the logs of gateways that the attacker runs itself, where it knows the audits, and lets it judge a month of
 * another gateway: with other customers, other texts and other manners. Replays, prompts and manners come from the code of src/market/trust.
 *
 * @param sharing the part of the customers that share their requests
 */
export async function measureRecognition(seed: number, sharing: number): Promise<Recognition> {
  const texts = readTexts()
  const random = createRandom(seed)
  const own = await Promise.all([0, 1, 2].map(at => logOf(random.fork(), sharing, texts[at]!)))
  const classify = trainClassifier(own.flatMap(featuresOf), random)
  const log = await logOf(random, sharing, texts[3]!)
  const judged = featuresOf(log).map(({ features, isAudit }) => ({ score: classify(features), isAudit }))
  return {
    requests: judged.length,
    audits: judged.filter(({ isAudit }) => isAudit).length,
    auc: areaUnderCurve(judged),
  }
}

/**
 * Paragraphs that people wrote, in four sets without a common file: for three gateways of the attacker, and for the real one. They are a
 * copy of what this project's pages and comments once said, so that the result changes with the code and not with each page.
 */
function readTexts(): readonly (readonly string[])[] {
  return JSON.parse(gunzipSync(readFileSync(new URL('texts.json.gz', import.meta.url))).toString())
}

/** How one customer asks. */
interface Manner {
  readonly customerId: string
  readonly shares: boolean
  readonly fields: Readonly<Record<string, number | boolean>>
  readonly system: string | null
  /** A fixed request before each text. Null: the text itself is what is asked. */
  readonly template: string | null
  readonly goesOn: number
  /** The hour, UTC, around which it asks the most. */
  readonly peakHour: number
}

function drawManner(at: number, random: Random, sharing: number, texts: readonly string[]): Manner {
  const sentence = () => random.pick(random.pick(texts).split(/(?<=[.:?])\s/))
  return {
    customerId: `c${at}`,
    shares: random.chance(sharing),
    fields: {
      ...(random.chance(0.5) && { temperature: random.pick([0, 0, 0.2, 0.7, 1]) }),
      ...(random.chance(0.4) && { max_tokens: random.pick([256, 512, 1_024, 4_096]) }),
      ...(random.chance(0.15) && { top_p: 0.95 }),
      ...(random.chance(0.5) && { stream: true }),
    },
    system: random.chance(0.5) ? `${sentence()} ${sentence()}` : null,
    template: random.chance(0.4) ? sentence() : null,
    goesOn: random.chance(0.5) ? 0.6 * random.next() : 0,
    peakHour: 24 * random.next(),
  }
}

function drawMessage({ template }: Manner, random: Random, texts: readonly string[]): string {
  const text = random.pick(texts)
  if (template !== null) return `${template}\n\n${text}`
  if (random.chance(0.4)) return text
  const sentences = text.split(/(?<=[.:?])\s/)
  const from = random.between(0, sentences.length - 1)
  return sentences.slice(from, from + random.between(1, 3)).join(' ')
}

const nameConversation = createConversationNames(fixedKey(Buffer.alloc(32)))

/** Writes the log of one hoster for a month. */
async function logOf(random: Random, sharing: number, texts: readonly string[]): Promise<SeenRequest[]> {
  let nowMs = 0
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs }
  const [shared, manners] = [createSharedRequests(clock), createRecentManners(random.fork().next)]
  const customers = Array.from({ length: CUSTOMERS }, (_, at) => drawManner(at, random, sharing, texts))
  const log: SeenRequest[] = []
  const words = texts.join(' ').split(/\s+/)
  const seen = new Set<string>()
  const deps = {
    ...{ shared, manners },
    seen: {
      seenBy: async () => seen,
      claim: async (conversation: string) => seen.add(conversation).size > 0,
    },
    shares: { isAffordable: () => true, whoCanPay: async () => () => true },
    estimateNanos: () => 0n,
    random: random.fork().next,
    relatedCustomers: async () => new Set<string>(),
    relatedHosters: { withRelated: async (hosterIds: readonly string[]) => hosterIds },
    corpus: texts,
    drawWords: (count: number) => Array.from({ length: count }, () => random.pick(words)),
  }
  const stock = new PromptStock()
  const [hoster, reference] = [hosterOffer, referenceOffer]
  const writer = createWriter(random.fork(), texts)
  const askReference = async () => ({ text: writer(), topTokens: [] })
  const audit = async (atMs: number) => {
    const text = await drawText(deps as never, stock, hoster, reference, askReference as never)
    if (text === null) return
    let history: readonly Message[] = []
    for (let sentMs = atMs; ; sentMs += drawGapMs(deps)) {
      const more = await text.next(history)
      if (more === null) return
      const messages = [...history, ...more]
      log.push({ atMs: sentMs, messages, fields: withoutMessages(text.fields), isAudit: true })
      history = [...messages, { role: 'assistant', content: writer() }]
    }
  }
  for (const { atMs, customer } of arrivalsOf(customers, random)) {
    nowMs = atMs
    await converse(
      customer,
      random,
      texts,
      writer,
      (messages, sentMs, isHere) => {
        const job = jobOf(customer, messages)
        manners.note(job, sentMs)
        if (isHere) log.push({ atMs: sentMs, messages, fields: customer.fields, isAudit: false })
        if (!customer.shares) return
        const { customerId } = customer
        const conversation = nameConversation(customerId, { forward: { messages } })!
        if (isHere) seen.add(conversation)
        shared.add({
          ...{ conversation, customerId, body: { ...customer.fields, messages }, modelId: MODEL },
          ...{ hosterId: isHere ? 'h0' : 'other', constraints: job.constraints },
        })
      },
      atMs,
    )
    // Audits follow the traffic: as often for each conversation as the pauses say for a day.
    const perDay = CUSTOMERS * CONVERSATIONS_A_DAY
    if (random.chance(DAY_MS / AUDIT_PAUSE_MS / perDay)) await audit(atMs + 60_000 * random.next())
  }
  return log.sort((a, b) => a.atMs - b.atMs)
}

function arrivalsOf(customers: readonly Manner[], random: Random): { atMs: number; customer: Manner }[] {
  return customers
    .flatMap(customer =>
      Array.from({ length: DAYS * CONVERSATIONS_A_DAY }, () => {
        const hour = customer.peakHour + 4 * (random.next() + random.next() + random.next() - 1.5)
        return { atMs: random.between(0, DAYS - 1) * DAY_MS + ((hour + 24) % 24) * 3_600_000, customer }
      }),
    )
    .sort((a, b) => a.atMs - b.atMs)
}

/** One conversation: each request has all messages before it. */
async function converse(
  customer: Manner,
  random: Random,
  texts: readonly string[],
  answer: () => string,
  send: (messages: readonly Message[], atMs: number, isHere: boolean) => void,
  startMs: number,
): Promise<void> {
  let isHere = random.chance(1 / HOSTERS)
  let messages: Message[] = customer.system === null ? [] : [{ role: 'system', content: customer.system }]
  for (let atMs = startMs; ; atMs += random.skewed(5_000, 300_000)) {
    messages = [...messages, { role: 'user', content: drawMessage(customer, random, texts) }]
    send(messages, atMs, isHere)
    if (!random.chance(customer.goesOn)) return
    messages = [...messages, { role: 'assistant', content: answer() }]
    if (!random.chance(STICKY)) isHere = random.chance(1 / HOSTERS)
  }
}

function jobOf({ fields }: Manner, messages: readonly Message[]): ChatJob {
  const { max_tokens: maxTokens = null, stream = false, ...forward } = fields
  const constraints = {
    ...{ serviceTier: 'balanced', privacyMode: false, trustedOnly: false, maxLatencyMs: null, fallbackModels: [] },
    ...{ allowHosters: null, denyHosters: new Set() },
  }
  return { task: 'chat', forward: { ...forward, messages }, maxTokens, stream, constraints } as unknown as ChatJob
}

function withoutMessages({ messages: _messages, ...fields }: Readonly<Record<string, unknown>>) {
  return fields
}

/** Writes texts in the manner of others, as a reference does: word by word, each after the two before it. */
function createWriter(random: Random, texts: readonly string[]): () => string {
  // By the first word, then by the second: joining the two for each word that is written took a third of a run.
  const after = new Map<string, Map<string, string[]>>()
  for (const text of texts) {
    const words = text.split(' ')
    for (let at = 2; at < words.length; at++) {
      const [first, second, third] = words.slice(at - 2, at + 1) as [string, string, string]
      const bySecond = after.get(first) ?? new Map<string, string[]>()
      after.set(first, bySecond)
      const known = bySecond.get(second)
      if (known === undefined) bySecond.set(second, [third])
      else known.push(third)
    }
  }
  return () => {
    const start = random.pick(texts).split(' ').slice(0, 2)
    const length = random.between(8, 150)
    const written = [...start]
    while (written.length < length) {
      const next = after.get(written.at(-2)!)?.get(written.at(-1)!)
      written.push(next === undefined ? random.pick(random.pick(texts).split(' ')) : random.pick(next))
    }
    return written.join(' ')
  }
}

const offerOf = (kind: 'hoster' | 'local') =>
  ({
    offerId: `${kind}/${MODEL}`,
    modelId: MODEL,
    endpoint: { kind, endpointId: kind, hosterId: kind === 'hoster' ? 'h0' : null, trustScore: 0.9 },
    price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n },
    features: new Set(['chat']),
  }) as unknown as Offer
const hosterOffer = offerOf('hoster') as HosterOffer
const referenceOffer = offerOf('local')
