import { expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'

import { addEvidence, noEvidence } from '../../src/market/trust/change-evidence.ts'
import { extremeEValues, failureEValues, rankPValue, shiftEValues } from '../../src/market/trust/e-values.ts'
import { provenBy } from '../../src/market/trust/quarantine.ts'

const random = createRandom(7)
const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())

const HOSTERS = 2_000
const AUDITS = 400

/** The part of honest hosters with a p-value that ever falls to `limit`, in 400 audits. */
function falseAlarms(eValues: () => readonly number[], limit: number): number {
  let alarms = 0
  for (let hoster = 0; hoster < HOSTERS; hoster++) {
    let evidence = noEvidence
    for (let audit = 0; audit < AUDITS; audit++) evidence = addEvidence(evidence, eValues())
    if (evidence.p <= limit) alarms++
  }
  return alarms / HOSTERS
}

test.each<[string, () => readonly number[]]>([
  [
    'reports with the largest honest shift',
    () => shiftEValues(0.01 + 0.02 * normal(), { meanMax: 0.01, sd: 0.02, alternatives: [0.02, 0.04, 0.1, 0.35] }),
  ],
  ['canaries failed as often as the others', () => failureEValues(random.chance(0.05), 0.05)],
  ['ranks among 120 honest distances', () => extremeEValues(random.between(1, 121) / 121, 120)],
  ['ranks among 2,000 honest distances', () => extremeEValues(random.between(1, 2_001) / 2_001, 2_000)],
])('honest hosters are alarmed at most as often as stated, however often the test is read: %s', (_name, eValues) => {
  // Three standard deviations above 1 in 100: 2,000 hosters.
  expect(falseAlarms(eValues, 0.01)).toBeLessThan(0.01 + 3 * Math.sqrt(0.01 / HOSTERS))
})

test('the rank of one of 121 exchangeable values is uniform', () => {
  expect(rankPValue(0.5, [0.1, 0.2, 0.9])).toBe(0.5)
  expect(rankPValue(1, [0.1, 0.2, 0.9])).toBe(0.25)
  expect(rankPValue(0, [0.1, 0.2, 0.9])).toBe(1)
})

test('a cheat that starts after a thousand honest audits is found', () => {
  let evidence = noEvidence
  for (let audit = 0; audit < 1_000; audit++) evidence = addEvidence(evidence, failureEValues(false, 0.03))
  expect(evidence.p).toBeGreaterThan(0.1)
  let audits = 0
  for (; evidence.p > 1e-6 && audits < 200; audits++)
    evidence = addEvidence(evidence, failureEValues(audits % 2 === 0, 0.03))
  expect(audits).toBeLessThan(40)
})

test('a cheat in one request of ten is found: the mixture loses little against the right alternative', () => {
  let evidence = noEvidence
  let audits = 0
  for (; evidence.p > 1e-6 && audits < 400; audits++)
    evidence = addEvidence(evidence, extremeEValues(audits % 10 === 0 ? 1 / 2_001 : 0.5, 2_000))
  expect(audits).toBeLessThan(120)
})

test('evidence that was collected with other alternatives stays', () => {
  const before = addEvidence(addEvidence(noEvidence, [8]), [8])
  const after = addEvidence(before, [1, 1, 1])
  expect(after.p).toBe(before.p)
  expect(after.started).toHaveLength(3)
  expect(after.started[0]).toBeGreaterThan(before.started[0]!)
})

test('proof needs one signal below 1e-6, or two below 1e-3', () => {
  const at = (p: number) => ({ started: [0], seen: 9, p })
  expect(provenBy({ meter: at(2e-6) })).toEqual([])
  expect(provenBy({ meter: at(9e-7) })).toEqual(['meter'])
  expect(provenBy({ meter: at(9e-4), canary: at(2e-3) })).toEqual([])
  expect(provenBy({ meter: at(9e-4), canary: at(9e-4) })).toEqual(['meter', 'canary'])
})
