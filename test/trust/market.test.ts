import { expect, test } from 'vitest'
import { attacks } from '../../sim/market/behaviour.ts'
import { areaUnderCurve, featuresOf, trainClassifier } from '../../sim/market/classifier.ts'
import { measureFrauds } from '../../sim/market/economy.ts'
import { measureHerd } from '../../sim/market/herd.ts'
import { runMarket } from '../../sim/market/market.ts'
import { measureRecognition } from '../../sim/market/recognise.ts'
import { measureRegret } from '../../sim/market/regret.ts'
import { createRandom } from '../../sim/random.ts'

// A few markets of the simulator: npm run sim:market runs more of each attack.

const attackOf = (name: string) => attacks.find(attack => attack.name === name)!

test.each([
  'reports 3% too much',
  'reports 50% too much',
  'swaps the model once it is trusted',
  'swaps the model; neither reference nor logprobs',
  'one operator with three of six hosters reports 10% too much; local server',
  'swaps all but requests at temperature 0',
  'swaps the model, recognises every request of the gateway',
])('is found within 70 audits, and no honest hoster is: %s', name => {
  const outcomes = runMarket(1, attackOf(name))
  const attackers = outcomes.filter(({ isHonest }) => !isHonest)
  const honest = outcomes.filter(({ isHonest }) => isHonest)
  expect(attackers.map(({ score }) => score)).toEqual(attackers.map(() => 0))
  for (const { auditsToQuarantine } of attackers) expect(auditsToQuarantine).toBeLessThanOrEqual(70)
  for (const { auditsToQuarantine, score } of honest) {
    expect(auditsToQuarantine).toBeNull()
    expect(score).toBeGreaterThan(0.8)
  }
})

test('a hoster that swaps one request in ten is found in most markets', () => {
  const found = [5, 6, 7, 8, 9].filter(seed =>
    runMarket(seed, attackOf('swaps 10% of the requests')).some(
      ({ isHonest, auditsToQuarantine: audits }) => !isHonest && audits !== null && audits <= 70,
    ),
  )
  expect(found.length).toBeGreaterThanOrEqual(4)
})

test('a hoster that comes back under another name is found again, and never trusted', () => {
  const outcomes = runMarket(2, attackOf('whitewashing: reports 10% too much, registers again'))
  const again = outcomes.filter(({ registration }) => registration > 0)
  expect(again.length).toBeGreaterThan(1)
  for (const { highestScore } of again) expect(highestScore).toBeLessThanOrEqual(0.7)
  // The last one may still be active at the end.
  expect(again.filter(({ auditsToQuarantine }) => auditsToQuarantine === null).length).toBeLessThanOrEqual(1)
})

test.each([
  'framing: three customers send poison prompts, a fifth of the requests',
  'framing: two competitors answer with other models so that the rest stand out; no reference',
])('an honest hoster keeps its trust: %s', name => {
  for (const { score } of runMarket(3, attackOf(name)).filter(({ isHonest }) => isHonest))
    expect(score).toBeGreaterThan(0.8)
})

test('a hoster that recognises the gateway is not found if no customer shares its requests: docs/trust.md says so', () => {
  const name = 'swaps the model, recognises every request of the gateway; no customer shares its requests'
  const [attacker] = runMarket(4, attackOf(name))
  expect(attacker!.auditsToQuarantine).toBeNull()
})

test('the same seed gives the same market', () => {
  const [one, two] = [runMarket(5, attackOf('reports 50% too much')), runMarket(5, attackOf('reports 50% too much'))]
  expect(one).toEqual(two)
})

test('the choice of each tier stays within reach of an oracle that knows latencies and failures in advance', () => {
  const [cheapest, balanced, fastest] = (['cheapest', 'balanced', 'fastest'] as const).map(tier =>
    measureRegret(1, tier),
  )
  expect(cheapest!.regret).toBeLessThan(0.1)
  expect(cheapest!.price).toBeLessThan(balanced!.price)
  // Both spread requests over several servers on purpose, so that a fast one is not flooded.
  expect(balanced!.regret).toBeLessThan(2)
  expect(fastest!.regret).toBeLessThan(2)
  for (const { failed, requests } of [cheapest!, balanced!, fastest!]) expect(failed / requests).toBeLessThan(0.01)
})

// The seeds make each of these the same in every run.

test.each(['balanced', 'fastest'] as const)('%s: choices are close to the best in hindsight', tier => {
  const regrets = [1, 2, 3, 4, 5].map(seed => measureRegret(seed, tier).regret)
  expect(regrets.reduce((sum, regret) => sum + regret, 0) / regrets.length).toBeLessThan(0.25)
})

test.each(['balanced', 'fastest'] as const)('%s: ten nodes do not all choose the same server', tier => {
  const { mean, p99 } = measureHerd(1, tier)
  expect(mean).toBeLessThan(0.95)
  expect(p99).toBeLessThan(1.25)
})

test('no fraud with prices, standing or credit earns more than an honest hoster after the first day', () => {
  const later = measureFrauds().map(({ name, laterDays }) => ({ name, isWorthIt: laterDays >= 0 }))
  expect(later.length).toBeGreaterThan(5)
  expect(later.filter(({ isWorthIt }) => isWorthIt)).toEqual([])
})

test("a classifier hardly tells the gateway's own requests from those of customers", async () => {
  const aucs = []
  for (const seed of [1, 2]) aucs.push((await measureRecognition(seed, 1 / 3)).auc)
  // Two logs; npm run sim:market judges more.
  expect(aucs.reduce((sum, auc) => sum + auc, 0) / aucs.length).toBeLessThan(0.65)
})

test('a classifier recognises requests with a text of their own', () => {
  const random = createRandom(1)
  const log = Array.from({ length: 400 }, (_, at) => ({
    atMs: at * 1_000,
    messages: [{ role: 'user', content: at % 4 === 0 ? 'which code belongs to Alma' : `some text ${at % 7}` }],
    fields: {},
    isAudit: at % 4 === 0,
  }))
  const classify = trainClassifier(featuresOf(log), random)
  const judged = featuresOf(log).map(({ features, isAudit }) => ({ score: classify(features), isAudit }))
  expect(areaUnderCurve(judged)).toBeGreaterThan(0.99)
  expect(areaUnderCurve(judged.map(one => ({ ...one, score: 0 })))).toBe(0.5)
})
