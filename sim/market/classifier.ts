import type { Message } from '../../src/market/trust/audits/replay.ts'
import type { Random } from '../random.ts'

/** A request as a hoster sees it. */
export interface SeenRequest {
  readonly atMs: number
  readonly messages: readonly Message[]
  readonly fields: Readonly<Record<string, unknown>>
  /** What the hoster would like to know. */
  readonly isAudit: boolean
}

/** What a classifier sees of a request: the places, in a table of weights, of what it has. */
type Features = Uint16Array

interface Example {
  readonly features: Features
  readonly isAudit: boolean
}

const PLACES = 2 ** 16

/** Turns a log, in order of time, into features: words and pairs of words, sizes, parameters, times, and whether a conversation began here. */
export function featuresOf(log: readonly SeenRequest[]): Example[] {
  const seen = new Set<string>()
  let lastMs = 0
  return log.map(({ atMs, messages, fields, isAudit }) => {
    const features = new Set<number>()
    const add = (name: string) => features.add(placeOf(name))
    const text = String(messages.at(-1)?.content ?? '')
    const words = text.toLowerCase().match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? []
    for (const [at, word] of words.entries()) {
      add(`word ${word}`)
      if (at > 0) add(`words ${words[at - 1]} ${word}`)
    }
    const system = messages.find(({ role }) => role === 'system')?.content
    for (const word of String(system ?? '').split(/\s+/)) if (word !== '') add(`system ${word}`)
    add(`length ${Math.round(Math.log2(1 + text.length) * 2)}`)
    add(`messages ${messages.length}`)
    add(`system ${system !== undefined}`)
    add(`ends ${text.at(-1)}`)
    for (const name of ['temperature', 'top_p', 'max_tokens', 'stream', 'logprobs', 'seed'])
      add(`${name} ${fields[name]}`)
    add(`all ${JSON.stringify(Object.entries(fields).sort())}`)
    add(`pause ${Math.round(Math.log2(1 + (atMs - lastMs) / 1_000))}`)
    add(`hour ${Math.floor((atMs / 3_600_000) % 24)}`)
    const asked = JSON.stringify(messages.filter(({ role }) => role !== 'assistant'))
    const before = JSON.stringify(messages.slice(0, -2).filter(({ role }) => role !== 'assistant'))
    const isLater = messages.some(({ role }) => role === 'assistant')
    add(`later ${isLater} known ${isLater && seen.has(before)}`)
    add(`repeated ${seen.has(asked)}`)
    add(`system known ${system !== undefined && seen.has(String(system))}`)
    if (system !== undefined) seen.add(String(system))
    seen.add(asked)
    lastMs = atMs
    return { features: Uint16Array.from(features), isAudit }
  })
}

const EPOCHS = 8
const STEP = 0.1
const DECAY = 1e-5

/** Trains logistic regression by stochastic gradient descent (AdaGrad). Returns a score, higher for audits. */
export function trainClassifier(examples: readonly Example[], random: Random): (features: Features) => number {
  const weights = new Float64Array(PLACES)
  const squares = new Float64Array(PLACES).fill(1)
  const score = (features: Features) => {
    let sum = 0
    for (const place of features) sum += weights[place]!
    return sum
  }
  // Each kind counts as much as the other, however rare audits are.
  const audits = examples.filter(({ isAudit }) => isAudit).length
  const weightOf = (isAudit: boolean) => examples.length / (2 * (isAudit ? audits : examples.length - audits))
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    for (let count = 0; count < examples.length; count++) {
      const { features, isAudit } = random.pick(examples)
      const error = (Number(isAudit) - 1 / (1 + Math.exp(-score(features)))) * weightOf(isAudit)
      for (const place of features) {
        const gradient = error - DECAY * weights[place]!
        squares[place]! += gradient * gradient
        weights[place]! += (STEP * gradient) / Math.sqrt(squares[place]!)
      }
    }
  }
  return score
}

/** Returns the probability that an audit has a higher score than a request of a customer; ties count half. */
export function areaUnderCurve(judged: readonly { readonly score: number; readonly isAudit: boolean }[]): number {
  const sorted = judged.toSorted((a, b) => a.score - b.score)
  let [rankSum, audits] = [0, 0]
  for (let from = 0; from < sorted.length; ) {
    let to = from
    while (to < sorted.length && sorted[to]!.score === sorted[from]!.score) to++
    const rank = (from + 1 + to) / 2
    for (let at = from; at < to; at++) {
      if (!sorted[at]!.isAudit) continue
      rankSum += rank
      audits++
    }
    from = to
  }
  return (rankSum - (audits * (audits + 1)) / 2) / (audits * (sorted.length - audits))
}

/** FNV-1a, to a place of the table. */
function placeOf(name: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193)
  return (hash >>> 0) % PLACES
}
