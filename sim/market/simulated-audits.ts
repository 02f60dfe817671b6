import { answerDistance } from '../../src/market/trust/answer-distance.ts'
import { PANEL_OTHERS, PANEL_PROMPTS } from '../../src/market/trust/audits/audit-by-panel.ts'
import {
  auditComparisons,
  COMPARED_BATCH,
  compareAnswer,
  referenceAnswersFor,
} from '../../src/market/trust/compare-answer.ts'
import { comparePanel } from '../../src/market/trust/compare-panel.ts'
import type { Random } from '../random.ts'
import type { SimulatedHoster } from './simulated-hoster.ts'
import { type AnsweringModel, answerPrompt, type SyntheticAnswer } from './synthetic-model.ts'
import type { World } from './world.ts'

/** What the gateway itself asked a hoster. Its report counts in token audits. */
export interface AuditedRequest {
  readonly hoster: SimulatedHoster
  readonly isRecognised: boolean
}

/** The gateway's own requests in two hours, as many as an audit asked before single answers were compared. */
const OWN_REQUESTS = 1

/**
 * Audits a hoster for two hours. With a reference, single answers are compared with it: to requests of the gateway, and to some of the
 * requests of customers that share theirs. Without one, a panel compares hosters. Returns the requests of the gateway.
 *
 * @param shared requests of customers that share them, which the hoster answered in this time
 */
export function auditHoster(world: World, hoster: SimulatedHoster, shared: number, atMs: number): AuditedRequest[] {
  const { random, attack } = world
  if (!attack.reference) {
    const others = world.hosters.filter(other => other !== hoster && other.isActive)
    return auditByPanel(world, [hoster, ...pickSome(others, PANEL_OTHERS, random)], atMs)
  }
  const requests: AuditedRequest[] = []
  for (let at = 0; at < OWN_REQUESTS; at++) {
    const isRecognised = random.chance(hoster.behaviour.recognises)
    requests.push({ hoster, isRecognised })
    compareOne(world, hoster, { customerId: null, isAtZero: random.chance(world.atZero), isRecognised })
  }
  // What a customer asked is compared after the answer was given, so there is nothing to recognise.
  for (let at = 0; at < shared; at++) {
    const isAtZero = random.chance(world.atZero)
    if (isAtZero || random.chance(SAMPLED_PART))
      compareOne(world, hoster, { customerId: `${at % attack.sharing}`, isAtZero, isRecognised: false })
  }
  while (hoster.compared.length >= COMPARED_BATCH) {
    const batch = hoster.compared.splice(0, COMPARED_BATCH)
    const others = world.hosters.filter(other => other !== hoster && other.isActive)
    const of = (kind: 'gap' | 'words') => new Map(others.map(other => [other.id, other.values[kind]]))
    hoster.noteAudit({ kind: 'shadow', ...auditComparisons(batch, { gap: of('gap'), words: of('words') }), atMs })
  }
  return requests
}

/** Of the requests at other temperatures than 0, this part is compared. */
const SAMPLED_PART = 0.5

interface ComparedRequest {
  /** Null: a request of the gateway. */
  readonly customerId: string | null
  readonly isAtZero: boolean
  readonly isRecognised: boolean
}

/** Compares the answer to one request with that of the reference. */
function compareOne(
  world: World,
  hoster: SimulatedHoster,
  { customerId, isAtZero, isRecognised }: ComparedRequest,
): void {
  const { random, attack } = world
  const isSwappable = !isAtZero || !hoster.behaviour.swapSampledOnly
  const isCheap = isSwappable && isSwapped(hoster, random.chance(0.1), isRecognised, random)
  const request = { prompt: random.between(1, 2 ** 31), tokens: Math.round(random.skewed(20, 120)) }
  const answer = (model: AnsweringModel, temperature: number, hasLogprobs: boolean) =>
    inWords(answerPrompt(request.prompt, model, { temperature, tokens: request.tokens, hasLogprobs, random }))
  const temperature = isAtZero ? 0 : undefined
  const own = answer(modelOf(world, hoster, isCheap), isAtZero ? 0 : hoster.defaultTemperature, false)
  const known = Array.from({ length: referenceAnswersFor(temperature, attack.logprobs) }, () =>
    answer(referenceModel(world), isAtZero || attack.logprobs ? 0 : REFERENCE_TEMPERATURE, attack.logprobs),
  )
  const compared = compareAnswer(own.text, known, temperature)
  if (compared !== null) hoster.noteCompared({ ...compared, customerId })
}

/** What a server draws with if the request names no temperature. */
const REFERENCE_TEMPERATURE = 0.8

/** Each token but the first begins with the space that divides the words of the text. */
function inWords({ text, topTokens }: SyntheticAnswer): SyntheticAnswer {
  const spaced = topTokens.map(({ tokens }, at) => ({
    tokens: at === 0 ? tokens : tokens.map(({ token, logprob }) => ({ token: ` ${token}`, logprob })),
  }))
  return { text, topTokens: spaced }
}

function auditByPanel(world: World, asked: readonly SimulatedHoster[], atMs: number): AuditedRequest[] {
  const { random } = world
  const prompts = Array.from({ length: PANEL_PROMPTS }, () => ({
    number: random.between(1, 2 ** 31),
    isLong: random.chance(0.1),
    tokens: random.between(24, 63),
  }))
  const requests: AuditedRequest[] = []
  const panel = asked.map(hoster => ({
    hosterId: hoster.id,
    answer: prompts.map(({ number, isLong, tokens }) => {
      const isRecognised = random.chance(hoster.behaviour.recognises)
      requests.push({ hoster, isRecognised })
      const model = modelOf(world, hoster, isSwapped(hoster, isLong, isRecognised, random))
      return answerPrompt(number, model, { temperature: 0, tokens, hasLogprobs: false, random })
    }),
  }))
  const distanceOf = (a: readonly SyntheticAnswer[], b: readonly SyntheticAnswer[]) => answerDistance(a, b, 'texts')
  const earlier = new Map(world.hosters.flatMap(one => (one.isActive ? [[one.id, one.distances] as const] : [])))
  for (const { hosterId, distance, eValues, hasPassed } of comparePanel(panel, distanceOf, earlier)) {
    const hoster = asked.find(({ id }) => id === hosterId)!
    hoster.noteAudit({ kind: 'agreement', eValues, hasPassed, atMs })
    hoster.noteDistance(distance)
  }
  return requests
}

function isSwapped({ isCheating, behaviour }: SimulatedHoster, isLong: boolean, isRecognised: boolean, random: Random) {
  if (!isCheating || isRecognised || (behaviour.swapLongOnly && !isLong)) return false
  return random.chance(behaviour.swapShare)
}

/** Colluders share the cheaper model; others have one each. */
function modelOf({ runNoise, cheapNoise, hosters }: World, hoster: SimulatedHoster, isCheap: boolean): AnsweringModel {
  const own = hoster.behaviour.colludes ? 1 : 2 + hosters.indexOf(hoster)
  return { model: isCheap ? own : 0, modelNoise: cheapNoise, runNoise: runNoise * hoster.noiseFactor }
}

function referenceModel({ runNoise, cheapNoise }: World): AnsweringModel {
  return { model: 0, modelNoise: cheapNoise, runNoise }
}

function pickSome<T>(items: readonly T[], count: number, random: Random): T[] {
  return items
    .map(item => ({ item, key: random.next() }))
    .toSorted((a, b) => a.key - b.key)
    .slice(0, count)
    .map(({ item }) => item)
}
