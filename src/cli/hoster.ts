import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { features } from '../domain/chat-job.ts'
import { usdText } from '../domain/money.ts'
import { SupplyError } from '../domain/supply-error.ts'
import { hosterEarnings } from '../ledger/accounts/hoster-earnings.ts'
import { quoteForShell } from '../runtime/quote-for-shell.ts'
import {
  activateHoster,
  addHoster,
  type HosterListing,
  type HosterRef,
  listHosters,
  setHosterKey,
  setHosterPrice,
  setTrustScore,
  suspendHoster,
} from '../supply/hosters/hosters.ts'
import { countArgument, instantArgument, priceArgument, scoreArgument } from './arguments.ts'
import { Failure, UsageError } from './failure.ts'
import { masterKeyOf } from './master-key-of.ts'
import { type Json, priceText, table } from './output.ts'
import { noun, type Session, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function hosterCommands(): Command {
  return noun('hoster', 'Third parties who rent out models', [
    add(),
    list(),
    price(),
    activate(),
    suspend(),
    trust(),
    key(),
    earnings(),
  ])
}

function add(): Command {
  return verb('add', 'Add a hoster. It gets requests once it has a price and is activated', [
    'hoster add acme https://models.acme.dev/v1 --key-file acme.key',
    'hoster price acme llama-3.3-70b --input 0.20 --output 0.60 --context-tokens 131072 --max-output-tokens 16384',
    'hoster activate acme',
  ])
    .argument('<name>', 'unique among hosters')
    .argument('<url>', 'https address up to and including /v1')
    .addOption(keyOption())
    .option('--key-file <file>', "file with the hoster's API key; - reads standard input")
    .option('--trust <score>', 'trust score, 0 to 1; above 0.8 it may serve trusted_only requests', scoreArgument, 0)
    .action(async (name: string, baseUrl: string, options) => {
      const session = sessionOf(options)
      const { config } = session
      const apiKey = keyFrom(options)
      const added = await withDatabase(session, async pool =>
        addHoster(
          pool,
          { name, baseUrl, apiKey, models: [], trustScore: options.trust, shareBps: config.platform.hosterShareBps },
          { masterKey: await masterKeyOf(session, pool), allowPrivateUrls: config.hosters.allowPrivateUrls },
        ),
      )
      const earns = `${config.platform.hosterShareBps / 100} %`
      session.output.result(
        { hoster_id: added.hosterId, endpoint_id: added.endpointId, name, state: 'pending' },
        `Added ${name} as ${added.hosterId}; it earns ${earns} of each charge.`,
      )
      const word = quoteForShell(name)
      session.output.note(`Next: switchyard hoster price ${word} <model> ..., then switchyard hoster activate ${word}`)
    })
}

function list(): Command {
  return verb('list', 'List hosters with their models and prices', ['hoster list', 'hoster list --json']).action(
    async options => {
      const session = sessionOf(options)
      const hosters = await withDatabase(session, listHosters)
      session.output.result(
        hosters.map(jsonOf),
        table(
          ['id', 'name', 'state', 'trust', 'share', 'url', 'model', 'USD/M in', 'USD/M out'],
          hosters.flatMap(hoster => {
            const { hosterId, name, state, trustScore, shareBps, baseUrl } = hoster
            const own = [hosterId, name, state, String(trustScore), `${shareBps / 100}%`, baseUrl]
            if (hoster.models.length === 0) return [[...own, '-', '-', '-']]
            return hoster.models.map(({ modelId, price: { inputPicoPerToken, outputPicoPerToken } }) => [
              ...own,
              modelId,
              priceText(inputPicoPerToken),
              priceText(outputPicoPerToken),
            ])
          }),
          'There are no hosters. Add one with: switchyard hoster add <name> <url>',
        ),
      )
    },
  )
}

function price(): Command {
  return verb('price', "Set a model's price at a hoster; running requests keep the price they started with", [
    'hoster price acme llama-3.3-70b --input 0.20 --output 0.60 --context-tokens 131072 --max-output-tokens 16384',
    'hoster price acme llama-3.3-70b --input 0.18 --output 0.55',
  ])
    .argument('<hoster>', 'name or id')
    .argument('<model>', 'what customers ask for')
    .requiredOption('--input <usd>', 'USD per million input tokens; required', priceArgument)
    .requiredOption('--output <usd>', 'USD per million output tokens; required', priceArgument)
    .option('--upstream-model <id>', "the hoster's own name of the model; without it, as before or the same")
    .option('--context-tokens <n>', 'context window; needed for a model that is new there', countArgument)
    .option('--max-output-tokens <n>', 'largest output; needed for a model that is new there', countArgument)
    .addOption(
      new Option(
        '--features <feature...>',
        'what the model can do; without it, as before, or nothing if it is new',
      ).choices(features),
    )
    .action(async (hoster: string, modelId: string, options) => {
      const session = sessionOf(options)
      const { hosterId, name, version } = await withDatabase(session, pool =>
        setHosterPrice(pool, hoster, {
          modelId,
          price: { inputPicoPerToken: options.input, outputPicoPerToken: options.output },
          upstreamModel: options.upstreamModel,
          contextTokens: options.contextTokens,
          maxOutputTokens: options.maxOutputTokens,
          features: options.features,
        }).catch((error: unknown) => {
          if (!(error instanceof SupplyError && error.code === 'unknown_model')) throw error
          throw new Failure(`${error.message} Add --context-tokens <n> --max-output-tokens <n>.`)
        }),
      )
      const [input, output] = [priceText(options.input), priceText(options.output)]
      session.output.result(
        { hoster_id: hosterId, name, model: modelId, version, price_per_million_usd: { input, output } },
        `${name} offers ${modelId} at ${input} in, ${output} out (USD per million tokens), version ${version}.`,
      )
    })
}

function activate(): Command {
  return verb('activate', 'Let a hoster receive requests', ['hoster activate acme'])
    .argument('<hoster>', 'name or id')
    .action(async (hoster: string, options) => {
      const session = sessionOf(options)
      const found = await withDatabase(session, pool => activateHoster(pool, hoster))
      const text =
        found.pricedModels > 0
          ? 'is active: it receives requests.'
          : `is active, but receives nothing: it needs a price first. Next: switchyard hoster price ${quoteForShell(found.name)} <model> ...`
      show(session, found, { state: 'active', models: found.pricedModels }, text)
    })
}

function suspend(): Command {
  return verb('suspend', 'Send a hoster no more requests; running ones finish and are paid', ['hoster suspend acme'])
    .argument('<hoster>', 'name or id')
    .action(async (hoster: string, options) => {
      const session = sessionOf(options)
      const found = await withDatabase(session, pool => suspendHoster(pool, hoster))
      show(session, found, { state: 'suspended' }, 'is suspended: it receives no new requests.')
    })
}

function trust(): Command {
  return verb('trust', "Set a hoster's trust score", ['hoster trust acme 0.9'])
    .argument('<hoster>', 'name or id')
    .argument('<score>', '0 to 1; above 0.8 it may serve trusted_only requests', scoreArgument)
    .action(async (hoster: string, score: number, options) => {
      const session = sessionOf(options)
      const found = await withDatabase(session, pool => setTrustScore(pool, hoster, score))
      const may = score > 0.8 ? 'may' : 'may not'
      show(session, found, { trust_score: score }, `has trust ${score}: it ${may} serve trusted_only requests.`)
    })
}

function key(): Command {
  return verb('key', 'Replace the API key that is sent to a hoster', [
    'hoster key acme --key-file acme.key',
    'hoster key acme --none',
  ])
    .argument('<hoster>', 'name or id')
    .addOption(keyOption())
    .option('--key-file <file>', "file with the hoster's API key; - reads standard input")
    .addOption(new Option('--none', 'send no key').conflicts(['key', 'keyFile']))
    .action(async (hoster: string, options) => {
      const session = sessionOf(options)
      const apiKey = keyFrom(options) ?? null
      if (apiKey === null && options.none !== true) throw new UsageError('Give --key-file, --key or --none.')
      const found = await withDatabase(session, async pool =>
        setHosterKey(pool, hoster, apiKey, await masterKeyOf(session, pool)),
      )
      show(session, found, { has_key: apiKey !== null }, apiKey === null ? 'is sent no key.' : 'is sent the new key.')
    })
}

function earnings(): Command {
  return verb('earnings', 'What hosters earned, in a period and in all', [
    'hoster earnings',
    'hoster earnings --from 2026-11-01 --to 2026-12-01 --json',
  ])
    .option('--from <time>', 'a UTC date, or a time with its offset; without it, from the beginning', instantArgument)
    .option('--to <time>', 'the same, and not part of the period; without it, until now', instantArgument)
    .action(async options => {
      const session = sessionOf(options)
      const from: Date | null = options.from ?? null
      const to: Date | null = options.to ?? null
      if (from !== null && to !== null && from >= to) throw new UsageError('--from must be before --to.')
      const hosters = await withDatabase(session, pool => hosterEarnings(pool, { from, to }))
      session.output.result(
        hosters.map(({ hosterId, name, earnedNanos, takenBackNanos, allTimeNanos }) => ({
          hoster_id: hosterId,
          name,
          from: from?.toISOString() ?? null,
          to: to?.toISOString() ?? null,
          earned_usd: usdText(earnedNanos),
          taken_back_usd: usdText(takenBackNanos),
          net_usd: usdText(earnedNanos - takenBackNanos),
          all_time_usd: usdText(allTimeNanos),
        })),
        table(
          ['name', 'earned USD', 'taken back', 'net', 'all time'],
          hosters.map(({ name, earnedNanos, takenBackNanos, allTimeNanos }) => [
            name,
            ...[earnedNanos, takenBackNanos, earnedNanos - takenBackNanos, allTimeNanos].map(nanos => usdText(nanos)),
          ]),
          'There are no hosters.',
        ),
      )
    })
}

function keyOption(): Option {
  return new Option('--key <key>', "the hoster's API key; other users of this machine may see it").conflicts('keyFile')
}

function keyFrom({ key, keyFile }: { key?: string; keyFile?: string }): string | undefined {
  if (keyFile === undefined) return key
  try {
    return readFileSync(keyFile === '-' ? 0 : keyFile, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`--key-file cannot be read: ${(error as Error).message}`)
  }
}

function show({ output }: Session, { hosterId, name }: HosterRef, change: Record<string, Json>, text: string): void {
  output.result({ hoster_id: hosterId, name, ...change }, `${name} ${text}`)
}

function jsonOf(hoster: HosterListing): Json {
  return {
    hoster_id: hoster.hosterId,
    name: hoster.name,
    state: hoster.state,
    trust_score: hoster.trustScore,
    share_bps: hoster.shareBps,
    endpoint_id: hoster.endpointId,
    base_url: hoster.baseUrl,
    has_key: hoster.hasKey,
    created_at: hoster.createdAt.toISOString(),
    models: hoster.models.map(model => ({
      id: model.modelId,
      upstream_model: model.upstreamModel ?? model.modelId,
      price_version: model.priceVersion,
      price_per_million_usd: {
        input: priceText(model.price.inputPicoPerToken),
        output: priceText(model.price.outputPicoPerToken),
      },
      context_tokens: model.contextTokens,
      max_output_tokens: model.maxOutputTokens,
      features: [...model.features],
    })),
  }
}
