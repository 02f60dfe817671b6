// Issue 35: at five requests at once, chains of models got 500 although a healthy model was left. Their first models failed at an
// endpoint and used up its retry budget, and that refused all of its models, the healthy ones too. One at a time there are too
// few retries a second for that.
import { expect, test } from 'vitest'
import { answer, status } from '../harness/scripted-upstream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { offerAt, startDispatching } from './dispatching.ts'

const [shared, other] = [useUpstream('test'), useUpstream('test')]
/** The ten seconds of the budgets never end. */
const budgetClock = { epochMs: () => 0, monotonicMs: () => 5_000 }
const dispatching = useResource(
  () => startDispatching({ budgetClock }),
  started => started.close(),
  'test',
)

/** Fails every model with a name that says so. */
function script(): void {
  for (const upstream of [shared, other])
    upstream.always((request, response) => {
      const fails = String(request.body.model).startsWith('failing')
      const behaviour = fails ? status(500, { error: { message: 'boom' } }) : answer({ text: 'fine' })
      return behaviour(request, response)
    })
}

const at = (upstream: typeof shared, modelId: string, upstreamModel = modelId) =>
  offerAt(upstream.baseUrl, { name: upstream === shared ? 'shared' : 'other', modelId, upstreamModel })

/** Until an offer has failed, it counts as healthy. So each of the five models may get five retries more. */
const ONCE_EACH = 25

/** Sends `count` requests, five at once. Returns which offers answered, or the codes of the failures. */
async function run(count: number, offersOf: (n: number) => ReturnType<typeof at>[]): Promise<Map<string, number>> {
  const outcomes = new Map<string, number>()
  let next = 0
  const work = async () => {
    while (next < count) {
      const offers = offersOf(next++)
      const outcome = await dispatching.send(offers).then(
        answered => answered.offer.offerId,
        (failure: { code: string }) => failure.code,
      )
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 5 }, work))
  return outcomes
}

test('failing models of an endpoint keep no request of a chain from its healthy model', async () => {
  script()
  const failing = (n: number) => [`failing-${n % 4}`, `failing-${(n + 1) % 4}`]
  const outcomes = await run(100, n => [
    ...failing(n).flatMap(model => [at(other, model), at(shared, model)]),
    at(shared, 'good'),
  ])
  expect(outcomes).toEqual(new Map([['shared/good', 100]]))
  // The failing ones get no more than the budget of the endpoint.
  const retried = shared.requests.filter(({ body }) => body.model !== 'good').length
  expect(retried).toBeLessThanOrEqual(30 + ONCE_EACH)
})

test('the healthy offer of a model replaces a failing one, although other models of its endpoint fail', async () => {
  script()
  const outcomes = await run(120, n =>
    n % 2 === 0
      ? [at(other, `failing-${n % 3}`), at(shared, `failing-${n % 3}`), at(shared, 'good')]
      : [at(other, 'mixed', 'failing-mixed'), at(shared, 'mixed', 'fine')],
  )
  expect(outcomes).toEqual(
    new Map([
      ['shared/good', 60],
      ['shared/mixed', 60],
    ]),
  )
})

test('where every server of a model fails, its retries stay within the budget', async () => {
  script()
  const outcomes = await run(200, () => [at(other, 'failing'), at(shared, 'failing')])
  expect(outcomes).toEqual(new Map([['all_hosters_failed', 200]]))
  expect(shared.requests.length).toBeLessThanOrEqual(40 + ONCE_EACH)
})
