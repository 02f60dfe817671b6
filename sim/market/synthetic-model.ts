import type { TopTokens } from '../../src/market/trust/answer-distance.ts'
import { createRandom, type Random } from '../random.ts'

/** What answers a prompt at a simulated server. */
export interface AnsweringModel {
  /** 0: the model that is sold. Two servers with the same other number serve the same cheaper model. */
  readonly model: number
  /** The standard deviation of the logits of another model around those of the sold one. */
  readonly modelNoise: number
  /** The standard deviation of the logits by hardware, batching and quantization: new for each run. */
  readonly runNoise: number
}

export interface SyntheticAnswer {
  readonly text: string
  readonly topTokens: readonly TopTokens[]
}

export interface AnswerOptions {
  readonly temperature: number
  readonly tokens: number
  readonly hasLogprobs: boolean
}

/** At each position, so many tokens are possible. */
const CANDIDATES = 5

/**
 * Answers a prompt by a language model without weights: the logits at each position are a hash of all tokens before, so answers
 * part for good after the first different token. The gap between the two likeliest tokens is exponential with a mean of 4
 * nats, so a run noise of 0.03 to 0.3 makes 0.4% to 4% of the tokens differ between two runs, and a model noise of 1.2 to 3
 * makes 15% to 35% differ between two models.
 *
 * @param prompt a number
 */
export function answerPrompt(
  prompt: number,
  { model, modelNoise, runNoise }: AnsweringModel,
  { temperature, tokens, hasLogprobs, random }: AnswerOptions & { readonly random: Random },
): SyntheticAnswer {
  const written: string[] = []
  const topTokens: TopTokens[] = []
  const logits = new Float64Array(CANDIDATES)
  let prefix = mix(prompt, 1)
  for (let position = 0; position < tokens; position++) {
    let logit = 0
    for (let at = 0; at < CANDIDATES; at++) {
      const seed = mix(prefix, at)
      if (at > 0) logit += GAP_MEAN * Math.log(uniform(seed)) * (at === 1 ? 1 : LATER_GAPS)
      const shift = model === 0 ? 0 : modelNoise * drawnNormal(uniform(mix(seed, model)))
      logits[at] = logit + shift + runNoise * drawnNormal(random.next())
    }
    const sum = logits.reduce((total, value) => total + Math.exp(value), 0)
    const chosen = temperature === 0 ? largest(logits) : draw(logits, temperature, random.next())
    written.push(wordOf(prefix, chosen))
    if (hasLogprobs) {
      const tokens = Array.from(logits, (value, at) => ({ token: wordOf(prefix, at), logprob: value - Math.log(sum) }))
      topTokens.push({ tokens })
    }
    prefix = mix(prefix, chosen + 10)
  }
  return { text: written.join(' '), topTokens }
}

const GAP_MEAN = 4
const LATER_GAPS = 0.4

function largest(logits: Float64Array): number {
  let best = 0
  for (let at = 1; at < logits.length; at++) if (logits[at]! > logits[best]!) best = at
  return best
}

function draw(logits: Float64Array, temperature: number, uniformValue: number): number {
  let left = uniformValue * logits.reduce((total, value) => total + Math.exp(value / temperature), 0)
  for (let at = 0; at < logits.length; at++) {
    left -= Math.exp(logits[at]! / temperature)
    if (left < 0) return at
  }
  return 0
}

/** The tokens at each position are drawn from so many words of three letters. */
const words3 = Array.from({ length: 4_096 }, (_, at) => (at * 11 + 1_296).toString(36))

function wordOf(prefix: number, candidate: number): string {
  return words3[mix(prefix, candidate + 100) % words3.length]!
}

/** A 32-bit hash of two numbers, by the finalizer of MurmurHash3. */
function mix(a: number, b: number): number {
  let hash = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** In (0, 1). */
function uniform(hash: number): number {
  return (hash + 0.5) / 2 ** 32
}

/** A standard normal value for a uniform one, from a table: most of the time of a market is spent here. */
function drawnNormal(value: number): number {
  return normals[Math.floor(value * normals.length)]!
}

const tableRandom = createRandom(1)
const normals = Float64Array.from({ length: 65_536 }, () => normal(tableRandom.next(), tableRandom.next()))

/** Box and Muller. */
export function normal(a: number, b: number): number {
  return Math.sqrt(-2 * Math.log(1 - a)) * Math.cos(2 * Math.PI * b)
}
