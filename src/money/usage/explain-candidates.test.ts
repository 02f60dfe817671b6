import { expect, test } from 'vitest'
import type { Attempt } from '../../base/domain/handoff.ts'
import type { NotedRank, RoutingNote } from '../../base/domain/routing-note.ts'
import { explainCandidates } from './explain-candidates.ts'

const rank = (offerId: string, more: Partial<NotedRank> = {}): NotedRank => ({
  offerId,
  provider: 'local',
  costPicos: '1000',
  predictedMs: null,
  trust: 1,
  inFlight: 0,
  state: 'open',
  ...more,
})
const noteOf = (ranked: NotedRank[], more: Partial<RoutingNote> = {}): RoutingNote => ({
  model: 'm',
  constraints: {},
  ranked,
  excluded: [],
  ...more,
})
/** Returns why the second offer ranks below the first. */
const why = (note: RoutingNote) => explainCandidates(note, [])[1]!.reason

test.each<[string, RoutingNote]>([
  ['drawn_later', noteOf([rank('a/m'), rank('b/m')])],
  ['slower_or_busier', noteOf([rank('a/m'), rank('b/m')], { constraints: { tier: 'fastest' } })],
  ['more_expensive', noteOf([rank('a/m'), rank('b/m', { costPicos: '1001' })], { constraints: { tier: 'cheapest' } })],
  ['slower', noteOf([rank('a/m'), rank('b/m')], { constraints: { tier: 'cheapest' } })],
  ['cloud_comes_last', noteOf([rank('a/m'), rank('b/m', { provider: 'cloud' })])],
  ['drawn_later', noteOf([rank('a/m'), rank('b/m', { provider: 'cloud' })], { cloudCompetes: true })],
  ['shorter_output', noteOf([rank('a/m', { provider: 'cloud' }), rank('b/m', { isShort: true })])],
  ['newcomer', noteOf([rank('a/m', { provider: 'cloud' }), rank('b/m', { isNewcomer: true })])],
  ['held_back', noteOf([rank('a/m'), rank('b/m', { isHeldBack: true })], { isSticky: true })],
  [
    'other_model',
    noteOf([rank('a/x'), rank('b/y')], {
      model: 'auto',
      auto: { taskClass: 'code', reason: 'lowest_cost', qualityFloor: 0.7, models: [] },
    }),
  ],
  ['recent_failures', noteOf([rank('a/m'), rank('b/m', { state: 'ejected' })])],
  ['prompt_cache_elsewhere', noteOf([rank('a/m'), rank('b/m')], { isSticky: true })],
  ['later_model', noteOf([rank('a/m'), rank('b/org/n')], { constraints: { fallback_models: ['org/n'] } })],
  ['drawn_later', noteOf([rank('a/x'), rank('b/y')], { model: 'auto' })],
  ['later_model', noteOf([rank('a/x'), rank('b/y')], { model: 'auto', constraints: { fallback_models: ['y'] } })],
  ['later_model', noteOf([rank('a/m'), rank('b/x')], { constraints: { fallback_models: ['auto'] } })],
])('%s', (reason, note) => {
  expect(why(note)).toBe(reason)
})

test('tried offers have their outcome, other ranked ones the reason, and excluded ones come last', () => {
  const attempt = (offerId: string, outcome: Attempt['outcome']): Attempt => ({
    offerId,
    endpointId: offerId.split('/')[0]!,
    provider: 'local',
    outcome,
    elapsedMs: 1,
  })
  const note = noteOf([rank('a/m'), rank('b/m'), rank('c/m')], {
    excluded: [{ offerId: 'd/org/m', provider: 'cloud', reason: 'privacy_mode' }],
  })
  const explained = explainCandidates(note, [attempt('a/m', 'busy'), attempt('b/m', 'answered')])
  expect(explained).toMatchObject([
    { endpointId: 'a', status: 'failed', reason: 'busy', rank: 1, expected_cost_usd: 1e-9 },
    { endpointId: 'b', status: 'answered', reason: null, rank: 2 },
    { endpointId: 'c', status: 'not_tried', reason: 'drawn_later', rank: 3 },
    {
      endpointId: 'd',
      model: 'org/m',
      status: 'excluded',
      reason: 'privacy_mode',
      rank: null,
      expected_cost_usd: null,
    },
  ])
})

test('without a note the attempts name the only candidate', () => {
  const tries: Attempt[] = ['busy', 'answered'].map(outcome => ({
    offerId: 'a/m',
    endpointId: 'a',
    provider: 'cloud',
    outcome: outcome as Attempt['outcome'],
    elapsedMs: 1,
  }))
  expect(explainCandidates(null, tries)).toMatchObject([{ endpointId: 'a', status: 'answered', rank: 1 }])
  expect(explainCandidates(null, [])).toEqual([])
})
