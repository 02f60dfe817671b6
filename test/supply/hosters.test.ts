import { randomBytes, randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { watchControlVersions } from '../../src/base/db/control-version.ts'
import { transaction } from '../../src/base/db/pool.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { SupplyError } from '../../src/base/domain/supply-error.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { activateHoster, suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { createCatalogSource } from '../../src/market/supply/catalog/catalog.ts'
import { addHoster, type NewHoster } from '../../src/market/supply/hosters/add-hoster.ts'
import {
  findHoster,
  listHosters,
  lockHoster,
  setHosterKey,
  setTrustScore,
} from '../../src/market/supply/hosters/hosters.ts'
import { setHosterPrice } from '../../src/market/supply/hosters/set-hoster-price.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from './random-market.ts'

const masterKeys = fixedKey(randomBytes(32))
const secrets = { masterKeys, allowPrivateUrls: false }
const price = { inputPicoPerToken: 200_000n, outputPicoPerToken: 600_000n }
const acme: NewHoster = {
  name: 'acme',
  baseUrl: 'https://models.acme.dev/v1/',
  apiKey: 'sk-acme',
  models: [{ modelId: 'qwen3-8b', price, contextTokens: 32_768, maxOutputTokens: 8_192, features: ['tools'] }],
  trustScore: 0.9,
  shareBps: 8_000,
}

const database = useTestDatabase()
beforeEach(async () => {
  await database.pool.query('TRUNCATE hoster CASCADE')
})

const supplyVersion = async () =>
  (await database.pool.query<{ version: bigint }>(`SELECT version FROM control_version WHERE topic = 'supply'`))
    .rows[0]!.version

const problems: string[] = []
const sourceOf = (more: Partial<Parameters<typeof createCatalogSource>[0]> = {}) =>
  createCatalogSource({
    configured: [offerOf({ name: 'ollama', modelId: 'llama' })],
    sql: database.pool,
    masterKeys,
    readEndpoint: () => [],
    allowPrivateHosters: false,
    clock: systemClock,
    agentSlots: () => 0,
    isBudgetSpent: () => false,
    onProblem: message => problems.push(message),
    ...more,
  })

describe('the catalog', () => {
  test('has configured offers at once and a hoster from its activation to its suspension', async () => {
    const source = sourceOf()
    const ids = () => source.current().offers.map(({ modelId }) => modelId)
    expect(ids()).toEqual(['llama'])
    const { hosterId, endpointId } = await addHoster(database.pool, acme, secrets)
    await source.refresh()
    expect(ids()).toEqual(['llama'])

    await activateHoster(database.pool, 'acme')
    const before = source.current()
    await source.refresh()
    expect(ids()).toEqual(['llama', 'qwen3-8b'])
    expect(before.offers.length).toBe(1)
    expect(source.current().offersOf('qwen3-8b')).toEqual([
      {
        offerId: `${endpointId}/qwen3-8b`,
        endpoint: expect.objectContaining({
          endpointId,
          kind: 'hoster',
          hosterId,
          name: 'acme',
          baseUrl: 'https://models.acme.dev/v1',
          apiKey: 'sk-acme',
          trustScore: 0.9,
          hosterShareBps: 8_000,
          egress: 'public_only',
        }),
        modelId: 'qwen3-8b',
        upstreamModel: 'qwen3-8b',
        price,
        priceVersion: 1,
        contextTokens: 32_768,
        maxOutputTokens: 8_192,
        features: new Set(['tools']),
        meterRatio: { input: 1, output: 1 },
      },
    ])

    await suspendHoster(database.pool, hosterId)
    await source.refresh()
    expect(ids()).toEqual(['llama'])
  })

  test.each(['http://models.acme.dev/v1', 'https://10.0.0.5/v1'])(
    'skips %s, which was added while private addresses were allowed, once they are not',
    async baseUrl => {
      await addHoster(database.pool, { ...acme, baseUrl }, { masterKeys, allowPrivateUrls: true })
      await activateHoster(database.pool, 'acme')
      const allowing = sourceOf({ allowPrivateHosters: true })
      await allowing.refresh()
      expect(allowing.current().offersOf('qwen3-8b')).toHaveLength(1)

      const reported: string[] = []
      const refusing = sourceOf({ onProblem: message => reported.push(message) })
      await refusing.refresh()
      expect(refusing.current().offersOf('qwen3-8b')).toEqual([])
      expect(reported).toEqual([expect.stringMatching(/^Hoster "acme" is not offered\. This hoster URL is refused: /)])
    },
  )

  test('a new price creates a new offer, and the old offer keeps its price', async () => {
    await addHoster(database.pool, acme, secrets)
    await activateHoster(database.pool, 'acme')
    const source = sourceOf()
    await source.refresh()
    const admitted = source.current().offersOf('qwen3-8b')[0]!
    const { created } = source.current().models.get('qwen3-8b')!

    const higherPrice = { inputPicoPerToken: 300_000n, outputPicoPerToken: 900_000n }
    expect(await setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price: higherPrice })).toMatchObject({
      name: 'acme',
      version: 2,
    })
    await source.refresh()
    expect(source.current().offersOf('qwen3-8b')[0]).toEqual({ ...admitted, price: higherPrice, priceVersion: 2 })
    expect(admitted.price).toEqual(price)
    expect(source.current().models.get('qwen3-8b')!.created).toBe(created)

    const { rows } = await database.pool.query(
      'SELECT version, valid_until IS NULL AS current FROM hoster_price ORDER BY version',
    )
    expect(rows).toEqual([
      { version: 1, current: false },
      { version: 2, current: true },
    ])
  })

  test('a hoster with a key that does not open is reported and skipped, and the others are offered', async () => {
    const { hosterId } = await addHoster(database.pool, acme, secrets)
    const other = await addHoster(database.pool, { ...acme, name: 'other' }, secrets)
    await activateHoster(database.pool, 'acme')
    await activateHoster(database.pool, 'other')
    // Case 49: the sealed key of one hoster copied to the other.
    await database.pool.query(
      'UPDATE hoster_endpoint SET key_sealed = (SELECT key_sealed FROM hoster_endpoint WHERE hoster_id = $1) WHERE hoster_id = $2',
      [hosterId, other.hosterId],
    )
    const source = sourceOf()
    await source.refresh()
    expect(
      source
        .current()
        .offersOf('qwen3-8b')
        .map(({ endpoint }) => endpoint.name),
    ).toEqual(['acme'])
    expect(problems.join()).toContain('Hoster "other" is not offered.')
    await setHosterKey(database.pool, 'other', 'sk-new', masterKeys)
    await source.refresh()
    expect(
      source
        .current()
        .offersOf('qwen3-8b')
        .map(({ endpoint }) => endpoint.apiKey),
    ).toEqual(['sk-acme', 'sk-new'])
  })

  test('a refresh requested during another one sees everything written before the request', async () => {
    await addHoster(database.pool, acme, secrets)
    const source = sourceOf()
    const first = source.refresh()
    await activateHoster(database.pool, 'acme')
    await Promise.all([source.refresh(), source.refresh(), first])
    expect(source.current().models.has('qwen3-8b')).toBe(true)
  })

  test('a failing database leaves the catalog unchanged', async () => {
    const source = sourceOf({ sql: { query: () => Promise.reject(new Error('gone')) } })
    await expect(source.refresh()).rejects.toThrow('gone')
    expect(source.current().models.has('llama')).toBe(true)
  })
})

describe('control versions', () => {
  test('the next poll notices every change of the supply, and only those', async () => {
    const versions = watchControlVersions(database.pool, { intervalMs: 3_600_000 })
    let changes = 0
    let accessChanges = 0
    versions.onChange('supply', () => {
      changes++
    })
    versions.onChange('access', () => {
      accessChanges++
    })
    await versions.poll()
    expect(changes).toBe(1)
    const steps = [
      () => addHoster(database.pool, acme, secrets),
      () => activateHoster(database.pool, 'acme'),
      () => setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price }),
      () => setTrustScore(database.pool, 'acme', 0.5),
      () => setHosterKey(database.pool, 'acme', null, masterKeys),
      () => suspendHoster(database.pool, 'acme'),
    ]
    for (const [at, step] of steps.entries()) {
      await step()
      await versions.poll()
      await versions.poll()
      expect(changes).toBe(at + 2)
    }
    expect(accessChanges).toBe(1)
    await versions.stop()
  })

  test('a listener that fails is called again, an unsubscribed one is not, and errors are reported', async () => {
    const errors: unknown[] = []
    const versions = watchControlVersions(database.pool, {
      intervalMs: 3_600_000,
      onError: error => errors.push(error),
    })
    let calls = 0
    const leave = versions.onChange('supply', async () => {
      calls++
      if (calls === 1) throw new Error('not yet')
    })
    for (let n = 0; n < 3; n++) await versions.poll()
    expect(calls).toBe(2)
    expect(errors).toEqual([new Error('not yet')])
    leave()
    await suspendHoster(database.pool, (await addHoster(database.pool, acme, secrets)).hosterId)
    await versions.poll()
    expect(calls).toBe(2)
    await versions.stop()

    const broken = watchControlVersions(
      { query: () => Promise.reject(new Error('gone')) },
      { intervalMs: 3_600_000, onError: error => errors.push(error) },
    )
    await broken.poll()
    expect(errors.at(-1)).toEqual(new Error('gone'))
    await broken.stop()
  })

  test('poll on a timer', async () => {
    const versions = watchControlVersions(database.pool, { intervalMs: 5 })
    await new Promise<void>(resolve => {
      versions.onChange('supply', resolve)
    })
    await versions.stop()
  })
})

describe('a mistake of the operator', () => {
  test('is refused with a reason and changes nothing', async () => {
    await addHoster(database.pool, acme, secrets)
    const version = await supplyVersion()
    const model = acme.models[0]!
    const mistakes: [() => Promise<unknown>, string][] = [
      [() => addHoster(database.pool, acme, secrets), 'exists already'],
      [
        () => addHoster(database.pool, { ...acme, name: 'b', baseUrl: 'https://10.0.0.5/v1' }, secrets),
        'private or reserved',
      ],
      [() => addHoster(database.pool, { ...acme, name: '' }, secrets), 'The name must have'],
      [() => addHoster(database.pool, { ...acme, name: 'acme ' }, secrets), 'must not end with a space'],
      // The id of another hoster.
      [() => addHoster(database.pool, { ...acme, name: randomUUID() }, secrets), 'like an id'],
      [() => addHoster(database.pool, { ...acme, name: 'b', trustScore: 1.1 }, secrets), 'trust score'],
      [() => addHoster(database.pool, { ...acme, name: 'b', trustScore: Number.NaN }, secrets), 'trust score'],
      [() => addHoster(database.pool, { ...acme, name: 'b', shareBps: 10_001 }, secrets), 'The share'],
      [() => addHoster(database.pool, { ...acme, name: 'b', apiKey: 'a\r\nb' }, secrets), 'printable ASCII'],
      [() => addHoster(database.pool, { ...acme, name: 'b', models: [model, model] }, secrets), 'appears twice'],
      [
        () => addHoster(database.pool, { ...acme, name: 'b', models: [{ ...model, modelId: 'auto' }] }, secrets),
        'reserved',
      ],
      [
        () => addHoster(database.pool, { ...acme, name: 'b', models: [{ ...model, modelId: 'demo' }] }, secrets),
        'reserved',
      ],
      [
        () => addHoster(database.pool, { ...acme, name: 'b', models: [{ ...model, modelId: 'a b' }] }, secrets),
        '1 to 200 letters',
      ],
      [() => activateHoster(database.pool, 'nobody'), 'no hoster'],
      [() => suspendHoster(database.pool, '00000000-0000-4000-8000-000000000000'), 'no hoster'],
      [() => setTrustScore(database.pool, 'nobody', 0.5), 'no hoster'],
      [() => setHosterPrice(database.pool, 'nobody', { modelId: 'qwen3-8b', price }), 'no hoster'],
      [() => setHosterPrice(database.pool, 'acme', { modelId: 'new', price }), 'context length'],
      [
        () =>
          setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price: { ...price, inputPicoPerToken: -1n } }),
        'input price',
      ],
      [
        () =>
          setHosterPrice(database.pool, 'acme', {
            modelId: 'qwen3-8b',
            price: { ...price, outputPicoPerToken: 10n ** 30n },
          }),
        'output price',
      ],
      [
        () =>
          setHosterPrice(database.pool, 'acme', {
            modelId: 'qwen3-8b',
            price: { ...price, cacheReadPicoPerToken: price.inputPicoPerToken + 1n },
          }),
        'cache read price must be at most the input price',
      ],
    ]
    for (const [mistake, reason] of mistakes) {
      const error = await mistake().catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(SupplyError)
      expect((error as SupplyError).message).toContain(reason)
    }
    expect(await supplyVersion()).toBe(version)
    expect(await listHosters(database.pool)).toHaveLength(1)
  })
})

test('a listing shows everything but the key', async () => {
  const { hosterId, endpointId } = await addHoster(database.pool, acme, secrets)
  await addHoster(database.pool, { ...acme, name: 'empty', apiKey: undefined, models: [] }, secrets)
  const [first, second] = await listHosters(database.pool)
  expect(first).toEqual({
    hosterId,
    name: 'acme',
    state: 'pending',
    trustScore: 0.9,
    shareBps: 8_000,
    endpointId,
    baseUrl: 'https://models.acme.dev/v1',
    hasKey: true,
    hasContract: false,
    createdAt: expect.any(Date),
    models: [{ ...acme.models[0], upstreamModel: 'qwen3-8b', maxConcurrent: null, priceVersion: 1 }],
  })
  expect(second).toMatchObject({ name: 'empty', hasKey: false, models: [] })
})

test('prices set concurrently become versions one after the other', async () => {
  await addHoster(database.pool, acme, secrets)
  const set = () => setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price })
  const versions = await Promise.all([set(), set(), set()])
  expect(versions.map(({ version }) => version).sort()).toEqual([2, 3, 4])
})

test('each price is valid until the next one begins', async () => {
  await addHoster(database.pool, acme, secrets)
  for (let n = 0; n < 3; n++) await setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price })
  const { rows } = await database.pool.query(
    'SELECT valid_until = lead(valid_from) OVER (ORDER BY version) AS adjoins FROM hoster_price ORDER BY version',
  )
  expect(rows.map(({ adjoins }) => adjoins)).toEqual([true, true, true, null])
})

test('a new price changes nothing else about a model, such as its upstream name', async () => {
  const model = { ...acme.models[0]!, upstreamModel: 'their/qwen3' }
  await addHoster(database.pool, { ...acme, models: [model] }, secrets)
  const higherPrice = { inputPicoPerToken: 300_000n, outputPicoPerToken: 900_000n }
  await setHosterPrice(database.pool, 'acme', { modelId: 'qwen3-8b', price: higherPrice })
  const kept = { ...model, maxConcurrent: null }
  expect((await listHosters(database.pool))[0]!.models).toEqual([{ ...kept, price: higherPrice, priceVersion: 2 }])
})

test('a command that only reads a hoster does not wait for its lock', async () => {
  const { hosterId } = await addHoster(database.pool, acme, secrets)
  await transaction(database.pool, async sql => {
    await lockHoster(sql, 'acme')
    expect(await findHoster(database.pool, 'acme')).toEqual({ hosterId, name: 'acme' })
    expect(await findHoster(database.pool, hosterId.toUpperCase())).toEqual({ hosterId, name: 'acme' })
  })
  await expect(findHoster(database.pool, 'nobody')).rejects.toThrow('There is no hoster with the id or name "nobody".')
})
