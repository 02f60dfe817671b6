import { setTimeout as delay } from 'node:timers/promises'
import { soldModel } from './cast.ts'

/** A scripted customer of the demo. */
export interface DemoCustomer {
  readonly email: string
  readonly key: string
  readonly habits: Habits
}

/** What a customer asks for. */
export interface Habits {
  readonly name: string
  /** Requests per second at the busiest hour. */
  readonly peakRate: number
  /** When the busiest hour is, as a part of the day: 0.5 is noon. */
  readonly peakAt: number
  readonly streamShare: number
  readonly tier: 'cheapest' | 'balanced' | 'fastest'
  readonly constraints: Readonly<Record<string, unknown>>
  readonly maxTokens: number
}

export const habits: readonly Habits[] = [
  person('chat-app', { peakRate: 2, peakAt: 0.6, streamShare: 0.9, tier: 'balanced', maxTokens: 200 }),
  person('batch-jobs', { peakRate: 2, peakAt: 0.1, streamShare: 0, tier: 'cheapest', maxTokens: 300 }),
  person('voice-bot', { peakRate: 1.2, peakAt: 0.45, streamShare: 1, tier: 'fastest', maxTokens: 80 }),
  person('law-firm', {
    peakRate: 0.8,
    peakAt: 0.4,
    streamShare: 0.5,
    tier: 'balanced',
    maxTokens: 250,
    constraints: { privacy_mode: true },
  }),
  person('careful', {
    peakRate: 0.8,
    peakAt: 0.7,
    streamShare: 0.5,
    tier: 'balanced',
    maxTokens: 150,
    constraints: { trusted_only: true },
  }),
]

function person(
  name: string,
  rest: Omit<Habits, 'name' | 'constraints'> & Partial<Pick<Habits, 'constraints'>>,
): Habits {
  return { name, constraints: {}, ...rest }
}

/** How the traffic went, so far. */
export interface TrafficCount {
  sent: number
  answered: number
  refused: number
  failed: number
}

/**
 * Sends the requests of one customer until `signal` is aborted. A simulated day takes `dayS` seconds: the rate follows the hours of that
 * day, the clock does not.
 */
export async function sendTraffic(
  origin: string,
  { key, habits: wanted }: DemoCustomer,
  { dayS, count, signal }: { dayS: number; count: TrafficCount; signal: AbortSignal },
): Promise<void> {
  const running = new Set<Promise<void>>()
  const startedMs = performance.now()
  while (!signal.aborted) {
    const dayPart = ((performance.now() - startedMs) / 1000 / dayS) % 1
    // The quietest hour has a tenth of the peak rate.
    const wave = 0.1 + 0.9 * Math.max(0, Math.cos((dayPart - wanted.peakAt) * 2 * Math.PI))
    // Exponential pauses, as of independent users.
    const pauseMs = (-Math.log(1 - Math.random()) / (wanted.peakRate * wave)) * 1000
    await delay(Math.min(pauseMs, 5_000), undefined, { signal }).catch(() => {})
    if (signal.aborted || running.size >= RUNNING_MAX) continue
    const sending = send(origin, key, wanted, count, signal).finally(() => running.delete(sending))
    running.add(sending)
  }
  await Promise.all(running)
}

const RUNNING_MAX = 50

async function send(
  origin: string,
  key: string,
  wanted: Habits,
  count: TrafficCount,
  signal: AbortSignal,
): Promise<void> {
  count.sent++
  try {
    const response = await fetch(`${origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: soldModel.id,
        messages: [{ role: 'user', content: prompt() }],
        max_tokens: wanted.maxTokens,
        stream: Math.random() < wanted.streamShare,
        tier: wanted.tier,
        ...wanted.constraints,
      }),
      signal,
    })
    const text = await response.text()
    if (response.status === 200) count[text.includes('"finish_reason":"error"') ? 'failed' : 'answered']++
    else count[response.status < 500 || text.includes('no_eligible_offer') ? 'refused' : 'failed']++
  } catch {
    if (!signal.aborted) count.failed++
  }
}

const subjects = [
  'a ferry timetable',
  'the new signal box',
  'our returns policy',
  'a birthday speech',
  'the night train',
]
const requests = ['Summarise', 'Rewrite politely', 'Explain to a child', 'List three facts about', 'Write a note about']
const details = ['Keep it short.', 'Use plain words.', 'It is for a customer.', 'We need it by Monday.', '']

function prompt(): string {
  const pick = (list: readonly string[]) => list[Math.floor(Math.random() * list.length)]!
  const background = Array.from(
    { length: Math.floor(Math.random() * 12) },
    () => `${pick(requests)} ${pick(subjects)}.`,
  )
  return `${pick(requests)} ${pick(subjects)}. ${pick(details)} ${background.join(' ')}`.trim()
}
