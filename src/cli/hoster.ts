import { type Command, Option } from 'commander'
import { features } from '../base/domain/chat-job.ts'
import { usdText } from '../base/domain/money.ts'
import { TRUSTED_ABOVE } from '../base/domain/offer.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { addHosterByOperator } from '../market/marketplace/operate-hoster.ts'
import type { HosterPrice } from '../market/supply/hosters/hosted-model.ts'
import { type HosterListing, listHosters } from '../market/supply/hosters/hosters.ts'
import { setHosterPrice } from '../market/supply/hosters/set-hoster-price.ts'
import { hosterEarnings } from '../money/ledger/accounts/hoster-earnings.ts'
import { countArgument, instantArgument, priceArgument, scoreArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { readUpstreamKey, upstreamKeyOption } from './hoster-change.ts'
import { hosterInvite } from './hoster-invite.ts'
import { hosterKeyCommands } from './hoster-key.ts'
import { hosterStateCommands, serverText } from './hoster-state.ts'
import { hosterTrustCommands } from './hoster-trust.ts'
import { type Json, priceText } from './output.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function hosterCommands(): Command {
  return createCommandGroup('hoster', 'Manage hosters: third parties that rent out models', [
    add(),
    list(),
    price(),
    hosterInvite(),
    ...hosterStateCommands(),
    ...hosterTrustCommands(),
    hosterKeyCommands(),
    earnings(),
  ])
}

function add(): Command {
  return createCommand('add', 'Add a hoster; it receives requests once it has a price and is activated', [
    'hoster add acme https://models.acme.dev/v1 --key-file acme.key',
    'hoster price acme llama-3.3-70b --input 0.20 --output 0.60 --context-tokens 131072 --max-output-tokens 16384',
    'hoster activate acme',
  ])
    .argument('<name>', 'name, unique among hosters')
    .argument('<url>', 'https URL, up to and including /v1')
    .addOption(upstreamKeyOption())
    .option('--key-file <file>', "file with the hoster's API key; - reads standard input")
    .option(
      '--trust <score>',
      `trust score, 0 to 1; above ${TRUSTED_ABOVE} the hoster may serve trusted_only requests`,
      scoreArgument,
      0,
    )
    .action(async (name: string, baseUrl: string, options) => {
      const session = createSession(options)
      const { config } = session
      const apiKey = readUpstreamKey(options)
      const added = await withDatabase(session, async pool =>
        addHosterByOperator(
          pool,
          { name, baseUrl, apiKey, models: [], trustScore: options.trust, shareBps: config.platform.hosterShareBps },
          { masterKeys: await requireMasterKeys(session, pool), allowPrivateUrls: config.hosters.allowPrivateUrls },
        ),
      )
      const earns = `${config.platform.hosterShareBps / 100}%`
      session.output.result(
        { hoster_id: added.hosterId, endpoint_id: added.endpointId, name, state: 'pending' },
        `Added ${name} as ${added.hosterId}; it earns ${earns} of each charge.`,
      )
      const quotedName = quoteForShell(name)
      session.output.note(
        `Next: ${ownCommand(`hoster price ${quotedName} <model> ...`)}, then ${ownCommand(`hoster activate ${quotedName}`)}`,
      )
    })
}

function list(): Command {
  return createCommand('list', 'List hosters with their models and prices', [
    'hoster list',
    'hoster list --json',
  ]).action(async options => {
    const session = createSession(options)
    const hosters = await withDatabase(session, pool => listHosters(pool))
    session.output.result(
      hosters.map(hosterJson),
      table(
        ['id', 'name', 'state', 'trust', 'share', 'url', 'model', 'USD/M in', 'USD/M out'],
        hosters.flatMap(hoster => {
          const { hosterId, name, state, trustScore, shareBps, baseUrl } = hoster
          const hosterCells = [hosterId, name, state, trustScore.toFixed(2), `${shareBps / 100}%`, serverText(baseUrl)]
          if (hoster.models.length === 0) return [[...hosterCells, '-', '-', '-']]
          return hoster.models.map(({ modelId, price: { inputPicoPerToken, outputPicoPerToken } }) => [
            ...hosterCells,
            modelId,
            priceText(inputPicoPerToken),
            priceText(outputPicoPerToken),
          ])
        }),
        `There are no hosters. Add one with: ${ownCommand('hoster add <name> <url>')}`,
      ),
    )
  })
}

function price(): Command {
  return createCommand('price', "Set the price of a hoster's model; running requests keep the old price", [
    'hoster price acme llama-3.3-70b --input 0.20 --output 0.60 --context-tokens 131072 --max-output-tokens 16384',
    'hoster price acme llama-3.3-70b --input 0.18 --output 0.55',
  ])
    .argument('<hoster>', 'name or id')
    .argument('<model>', 'model id that customers request')
    .requiredOption('--input <usd>', 'USD per million input tokens; required', priceArgument)
    .requiredOption('--output <usd>', 'USD per million output tokens; required', priceArgument)
    .option('--cache-read <usd>', 'USD per million tokens read from a cache; default: the input price', priceArgument)
    .option('--cache-write <usd>', 'USD per million tokens written to a cache; default: the input price', priceArgument)
    .option('--upstream-model <id>', "the hoster's id of the model; default: unchanged, or <model> for a new model")
    .option('--context-tokens <n>', 'context window; a new model needs it', countArgument)
    .option('--max-output-tokens <n>', 'largest output; a new model needs it', countArgument)
    .option(
      '--max-concurrent <n>',
      'requests at once that the server takes; 0: found by the gateway; default: unchanged',
      countArgument,
    )
    .addOption(
      new Option(
        '--features <feature...>',
        'features of the model; default: unchanged, or none for a new model',
      ).choices(features),
    )
    .action(async (hoster: string, modelId: string, options) => {
      const session = createSession(options)
      const newPrice: HosterPrice = {
        inputPicoPerToken: options.input,
        outputPicoPerToken: options.output,
        cacheReadPicoPerToken: options.cacheRead,
        cacheWritePicoPerToken: options.cacheWrite,
      }
      const { hosterId, name, version } = await withDatabase(session, pool =>
        setHosterPrice(pool, hoster, {
          modelId,
          price: newPrice,
          upstreamModel: options.upstreamModel,
          contextTokens: options.contextTokens,
          maxOutputTokens: options.maxOutputTokens,
          maxConcurrent: options.maxConcurrent === 0 ? null : options.maxConcurrent,
          features: options.features,
        }).catch((error: unknown) => {
          if (!(error instanceof SupplyError && error.code === 'unknown_model')) throw error
          throw new Failure(`${error.message} Add --context-tokens <n> --max-output-tokens <n>.`)
        }),
      )
      const prices = priceJson(newPrice)
      const cached = prices.cache_read === undefined ? '' : `${prices.cache_read} cached, `
      session.output.result(
        { hoster_id: hosterId, name, model: modelId, version, price_per_million_usd: prices },
        `${name} offers ${modelId} at ${prices.input} in, ${cached}${prices.output} out (USD per million tokens), version ${version}.`,
      )
    })
}

function earnings(): Command {
  return createCommand('earnings', 'Show what hosters earned, in a period and in total', [
    'hoster earnings',
    'hoster earnings --from 2026-11-01 --to 2026-12-01 --json',
  ])
    .option('--from <time>', 'start: a UTC date, or a time with an offset; default: the beginning', instantArgument)
    .option('--to <time>', 'end, exclusive, in the same format; default: now', instantArgument)
    .action(async options => {
      const session = createSession(options)
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
          `There are no hosters. Add one with: ${ownCommand('hoster add <name> <url>')}`,
        ),
      )
    })
}

/** Cache prices that are not set are left out: such tokens cost the input price. */
function priceJson(price: HosterPrice) {
  const { inputPicoPerToken, outputPicoPerToken, cacheReadPicoPerToken, cacheWritePicoPerToken } = price
  return {
    input: priceText(inputPicoPerToken),
    output: priceText(outputPicoPerToken),
    ...(cacheReadPicoPerToken !== undefined && { cache_read: priceText(cacheReadPicoPerToken) }),
    ...(cacheWritePicoPerToken !== undefined && { cache_write: priceText(cacheWritePicoPerToken) }),
  }
}

function hosterJson(hoster: HosterListing): Json {
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
      price_per_million_usd: priceJson(model.price),
      context_tokens: model.contextTokens,
      max_output_tokens: model.maxOutputTokens,
      max_concurrent: model.maxConcurrent ?? null,
      features: [...model.features],
    })),
  }
}
