import { randomUUID } from 'node:crypto'
import { demoOffer } from '../../src/wire/demo-model/demo-offer.ts'
import { startDemoUpstream } from '../../src/wire/demo-model/start-demo-upstream.ts'
import type { TestApp } from './app.ts'
import { useResource } from './use-resource.ts'
import { useTestApp } from './use-test-app.ts'

/**
 * A gateway whose only model is the demo model, for the tests of this file.
 *
 * @param options.tokensPerSecond of the model; by default, an answer takes no time
 * @param options.yaml of the gateway
 */
export function useDemoApp({ tokensPerSecond = 100_000, yaml = '' } = {}): TestApp {
  const apiKey = randomUUID()
  const price = { inputPicoPerToken: 100_000n, outputPicoPerToken: 400_000n }
  const demo = useResource(
    () => startDemoUpstream({ apiKey, tokensPerSecond, firstTokenMs: 0 }),
    server => server.close(),
  )
  return useTestApp(() => ({ offers: [demoOffer({ baseUrl: demo.baseUrl, apiKey, price })], yaml }))
}
