import { answerDistance, PERMUTATIONS, sameModelPValue } from '../../src/trust/answer-distance.ts'
import { PANEL_OTHERS, PANEL_PROMPTS, SAMPLES, SAMPLING_FAILED_P } from '../../src/trust/audits/audit-hoster.ts'
import { makeCanary } from '../../src/trust/canary.ts'
import { auditCanaries, needsAnotherCanary } from '../../src/trust/canary-audit.ts'
import { chooseAudit } from '../../src/trust/choose-audit.ts'
import { comparePanel } from '../../src/trust/compare-panel.ts'
import { extremeEValues } from '../../src/trust/e-values.ts'
import type { Random } from '../random.ts'
import type { SimulatedHoster } from './simulated-hoster.ts'
import { type AnsweringModel, answerPrompt, type SyntheticAnswer } from './synthetic-model.ts'
import type { World } from './world.ts'

/** What the gateway asks a server in an audit. Returns the prompt's length for the tokens of the report. */
export interface AuditedRequest {
  readonly hoster: SimulatedHoster
  readonly isRecognised: boolean
}

/**
 * Sends one audit to a hoster, of the kind that src/trust chooses. Returns the requests that it sent, whose reports count in token audits.
 */
export function auditHoster(world: World, hoster: SimulatedHoster, atMs: number): AuditedRequest[] {
  const { random, attack } = world
  const others = world.hosters.filter(other => other !== hoster && other.isActive)
  const peers = { hasReference: attack.reference, hosters: others.length, needsComparison: false }
  const { kind, hasLogprobs } = chooseAudit(hoster.evidence.signals, peers, random.next)
  if (kind === 'canary') return auditByCanaries(world, hoster, others, atMs)
  if (kind === 'sampling') return auditBySamples(world, hoster, atMs)
  return auditByPanel(world, [hoster, ...pickSome(others, PANEL_OTHERS, random)], hasLogprobs && attack.logprobs, atMs)
}

function auditByCanaries(
  { random, attack, reference, failure, cheapFailure }: World,
  hoster: SimulatedHoster,
  others: readonly SimulatedHoster[],
  atMs: number,
): AuditedRequest[] {
  const known = attack.reference ? [reference, ...others.map(({ canaries }) => canaries)] : others.map(o => o.canaries)
  const record = {
    asked: known.reduce((sum, { asked }) => sum + asked, 0),
    failed: known.reduce((sum, { failed }) => sum + failed, 0),
  }
  const answered: boolean[] = []
  const requests: AuditedRequest[] = []
  do {
    const isLong = makeCanary(random.next, 'sum').messages.at(-1)!.content.length > 1_500
    const isRecognised = random.chance(hoster.behaviour.recognises)
    answered.push(!random.chance(isSwapped(hoster, isLong, isRecognised, random) ? cheapFailure : failure))
    requests.push({ hoster, isRecognised })
    if (attack.reference && random.chance(0.3)) {
      reference.asked++
      if (random.chance(failure)) reference.failed++
    }
  } while (needsAnotherCanary(answered))
  const failed = answered.filter(isAnswered => !isAnswered).length
  hoster.canaries = { asked: hoster.canaries.asked + answered.length, failed: hoster.canaries.failed + failed }
  hoster.noteAudit({ kind: 'canary', ...auditCanaries(answered, record), atMs })
  return requests
}

function auditByPanel(
  world: World,
  asked: readonly SimulatedHoster[],
  hasLogprobs: boolean,
  atMs: number,
): AuditedRequest[] {
  const { random, attack } = world
  const kind = hasLogprobs ? 'fingerprint' : 'agreement'
  const prompts = Array.from({ length: PANEL_PROMPTS }, () => ({
    number: random.between(1, 2 ** 31),
    isLong: random.chance(0.1),
    tokens: random.between(24, 63),
  }))
  const requests: AuditedRequest[] = []
  const answersOf = (modelOf: (isLong: boolean) => AnsweringModel) =>
    prompts.map(({ number, isLong, tokens }) =>
      answerPrompt(number, modelOf(isLong), { temperature: 0, tokens, hasLogprobs, random }),
    )
  const panel = asked.map(hoster => {
    const answer = answersOf(isLong => {
      const isRecognised = random.chance(hoster.behaviour.recognises)
      requests.push({ hoster, isRecognised })
      return modelOf(world, hoster, isSwapped(hoster, isLong, isRecognised, random))
    })
    return { hosterId: hoster.id as string | null, answer }
  })
  if (attack.reference) panel.push({ hosterId: null, answer: answersOf(() => referenceModel(world)) })
  const distanceOf = (a: readonly SyntheticAnswer[], b: readonly SyntheticAnswer[]) =>
    answerDistance(a, b, hasLogprobs ? 'distributions' : 'texts')
  const earlier = new Map(world.hosters.flatMap(one => (one.isActive ? [[one.id, one.distances[kind]] as const] : [])))
  for (const { hosterId, distance, eValues, hasPassed } of comparePanel(panel, distanceOf, earlier)) {
    const hoster = asked.find(({ id }) => id === hosterId)!
    hoster.noteAudit({ kind, eValues, hasPassed, atMs })
    hoster.noteDistance(kind, distance)
  }
  return requests
}

function auditBySamples(world: World, hoster: SimulatedHoster, atMs: number): AuditedRequest[] {
  const { random } = world
  const prompt = random.between(1, 2 ** 31)
  const requests: AuditedRequest[] = []
  const sample = (model: () => AnsweringModel) =>
    Array.from(
      { length: SAMPLES },
      () => answerPrompt(prompt, model(), { temperature: 1, tokens: 16, hasLogprobs: false, random }).text,
    )
  const own = sample(() => {
    const isRecognised = random.chance(hoster.behaviour.recognises)
    requests.push({ hoster, isRecognised })
    return modelOf(world, hoster, isSwapped(hoster, false, isRecognised, random))
  })
  const known = sample(() => referenceModel(world))
  const pValue = sameModelPValue(own, known, random.next)
  const eValues = extremeEValues(pValue, PERMUTATIONS)
  hoster.noteAudit({ kind: 'sampling', eValues, hasPassed: pValue > SAMPLING_FAILED_P, atMs })
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
