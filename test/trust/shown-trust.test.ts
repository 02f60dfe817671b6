import { expect, test } from 'vitest'
import { signedInMember } from '../harness/browser-client.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Routing uses the trust score of now. Every answer that shows it, to hosters and to customers, shows that of an earlier day: a hoster
// may be a customer too.

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const upstreams = [useUpstream('test'), useUpstream('test')]
const customer = useCustomer(app)

const LIVE = 0.876_543
const SHOWN = 0.51

test('hosters, quotes, receipts, the list of models and the table of prices show the score of an earlier day', async () => {
  const ids: string[] = []
  for (const { baseUrl } of upstreams) ids.push(await app.hoster({ baseUrl, trustScore: 0 }))
  await app.database.pool.query('UPDATE hoster SET trust_score = $1', [LIVE])
  await app.database.pool.query(
    `INSERT INTO hoster_trust_day SELECT hoster_id, (now() AT TIME ZONE 'UTC')::date - age, jsonb_build_object('score', CASE age WHEN 2 THEN $1::float8 ELSE $2 END)
       FROM hoster, generate_series(0, 3) age`,
    [SHOWN, LIVE],
  )
  // A change of the supply renews the catalog.
  await app.hoster({ baseUrl: upstreams[0]!.baseUrl, models: [{ modelId: 'another-model' }] })

  const seen: string[] = []
  const read = async (answer: Response) => {
    expect(answer.status).toBe(200)
    seen.push(await answer.text())
    return JSON.parse(seen.at(-1)!)
  }
  expect((await read(await app.get(customer, '/v1/hosters'))).data).toMatchObject([
    { trust_score: SHOWN },
    { trust_score: SHOWN },
    { trust_score: 0.9 },
  ])
  expect(await read(await app.get(customer, `/v1/hosters/${ids[0]}`))).toMatchObject({ trust_score: SHOWN })
  const { key } = await hosterKey(app, ids[0]!, ['read'])
  expect(await read(await hosterRequest(app, key, 'hoster'))).toMatchObject({ trust_score: SHOWN })
  const offers = await read(await hosterRequest(app, key, 'hoster/offers'))
  expect(offers.data[0].market.others).toMatchObject([{ provider: 'hoster', trust: SHOWN }])

  // They may serve it: the score of now is above 0.8.
  const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hello!' }], trusted_only: true }
  const quote = await read(await app.chat(customer, { ...body, dry_run: true }))
  expect(quote.candidates).toMatchObject([{ trust_score: SHOWN }, { trust_score: SHOWN }])
  expect((await app.chat(customer, body)).status).toBe(200)
  const [row] = await app.settled(customer, 1)
  const receipt = await read(await app.get(customer, `/v1/usage/requests/${row!.request_id}`))
  expect(receipt.candidates).toMatchObject([{ trust_score: SHOWN }, { trust_score: SHOWN }])

  const { browser } = await signedInMember(app, customer.customerId)
  const facts = await read(await browser.get(`customers/${customer.customerId}/model-facts`))
  const ofModel = facts.data.find((each: { id: string }) => each.id === 'test-model')
  expect(ofModel.providers).toMatchObject([{ kind: 'hoster', trust_score: SHOWN }])
  for (const text of seen) expect(text).not.toContain('0.87')
})
