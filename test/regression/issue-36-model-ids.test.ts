import { beforeAll, expect, test } from 'vitest'
import { setHosterPrice } from '../../src/market/supply/hosters/set-hoster-price.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A hoster offered the id `../../x`. Ids stand in URLs such as /v1/models/<id>, and programs resolve these parts.

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 1_000_000n }
let hosterId: string
let key: string
beforeAll(async () => {
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [] })
  key = (await hosterKey(app, hosterId, ['manage'])).key
})
const put = (id: string, upstreamModel?: string) =>
  hosterRequest(app, key, 'hoster/manifest', {
    method: 'PUT',
    body: {
      models: [
        {
          id,
          upstream_model: upstreamModel,
          context_length: 1_000,
          max_output_length: 100,
          pricing: { prompt: '0.000001', completion: '0.000001' },
        },
      ],
    },
  })

test.each(['../../x', '..', '.', 'a/../b', 'a/./b', 'a/..', './a'])('%s is refused as the id of a model', async id => {
  expect(await readError(await put(id))).toMatchObject({ status: 400, param: 'models[0].id' })
  const change = setHosterPrice(app.database.pool, hosterId, {
    modelId: id,
    price,
    contextTokens: 1,
    maxOutputTokens: 1,
  })
  await expect(change).rejects.toMatchObject({ code: 'invalid_value' })
})

test.each(['meta/llama-3.3', 'v1.5', '...', 'a..b/c.', '/models/llama'])('%s is allowed', async id => {
  const change = setHosterPrice(app.database.pool, hosterId, {
    modelId: id,
    price,
    contextTokens: 9,
    maxOutputTokens: 1,
  })
  await expect(change).resolves.toMatchObject({ version: 1 })
})

test('the id at the server may be a path of a file', async () => {
  expect((await put('from-a-file', '../models/llama.gguf')).status).toBe(200)
})
