import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const hosted = useUpstream()
const own = useUpstream()
const app = useTestApp(() => ({
  offers: [testOffer(own.baseUrl)],
  yaml: 'hosters: { allow_private_urls: true }\ntrust: { audits: true, audit_minutes: 1440 }',
}))

test('operators see of which models a hoster may recognise the audits', async () => {
  const hosterId = await app.hoster({ baseUrl: hosted.baseUrl, models: [{}, { modelId: 'of-no-reference' }] })
  const { browser } = await signedInOperator(app)
  const response = await browser.get(`operator/hosters/${hosterId}/trust`)
  expect(await response.json()).toMatchObject({ recognisable_models: ['of-no-reference'] })
})
