import { expect, test } from 'vitest'
import { attacks } from '../../sim/market/behaviour.ts'
import { runMarket } from '../../sim/market/market.ts'
import { measureRegret } from '../../sim/market/regret.ts'

// A few markets of the simulator: npm run sim:market runs more of each attack.

const attackOf = (name: string) => attacks.find(attack => attack.name === name)!

test.each([
  'reports 10% too much',
  'reports 50% too much',
  'reports 10% too much once it is trusted',
  'swaps the model',
  'swaps the model once it is trusted',
  'three of six report 10% too much together; local server',
])('is found within 70 audits, and no honest hoster is: %s', name => {
  for (const seed of [1, 2]) {
    const outcomes = runMarket(seed, attackOf(name))
    const attackers = outcomes.filter(({ isHonest }) => !isHonest)
    const honest = outcomes.filter(({ isHonest }) => isHonest)
    expect(attackers.map(({ score }) => score)).toEqual(attackers.map(() => 0))
    for (const { auditsToQuarantine } of attackers) expect(auditsToQuarantine).toBeLessThanOrEqual(70)
    for (const { auditsToQuarantine, score } of honest) {
      expect(auditsToQuarantine).toBeNull()
      expect(score).toBeGreaterThan(0.8)
    }
  }
})

test('a customer with poison prompts does not take the trust of an honest hoster', () => {
  const outcomes = runMarket(3, attackOf('a customer frames an honest hoster'))
  for (const { score } of outcomes) expect(score).toBeGreaterThan(0.8)
})

test('a hoster that recognises every audit is not found: docs/trust.md says so', () => {
  const [attacker] = runMarket(4, attackOf('swaps the model, recognises every audit'))
  expect(attacker!.auditsToQuarantine).toBeNull()
})

test('the same seed gives the same market', () => {
  expect(runMarket(5, attackOf('swaps the model'))).toEqual(runMarket(5, attackOf('swaps the model')))
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
