import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import type { Offer } from '../base/domain/offer.ts'
import { decideModel } from '../market/marketplace/decide-model.ts'
import { withManaged } from '../market/supply/catalog/catalog.ts'
import { readHosterOffers } from '../market/supply/hosters/hoster-offers.ts'
import { listUnapprovedIds } from '../market/supply/hosters/model-ids.ts'
import { readProviderOffers } from '../market/supply/providers/providers.ts'
import { readEndpoint } from '../start/config/read-endpoint.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { priceText } from './output.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'
import { withRunningPort } from './with-running-port.ts'

export function modelCommands(): Command {
  return createCommandGroup('model', 'List the available models, and approve those of hosters', [
    list(),
    review(),
    decide('approve'),
    decide('refuse'),
  ])
}

function list(): Command {
  return createCommand('list', 'List the models that the gateway would offer, with their servers and prices', [
    'model list',
    'model list --json',
  ]).action(async options => {
    const session = createSession(options)
    const own = await gatheredOffers(session)
    const { hosted, managed } = await storedOffers(session)
    const offers = [...withManaged(own, managed), ...hosted]
    const rows = offers
      .map(offer => ({
        model: offer.modelId,
        kind: offer.endpoint.kind,
        endpoint: offer.endpoint.name,
        demo: offer.endpoint.demo,
        price_per_million_usd: {
          input: priceText(offer.price.inputPicoPerToken),
          output: priceText(offer.price.outputPicoPerToken),
        },
        context_tokens: offer.contextTokens,
        max_output_tokens: offer.maxOutputTokens,
        features: [...offer.features],
      }))
      .sort((a, b) => (a.model < b.model ? -1 : a.model > b.model ? 1 : 0))
    session.output.result(
      rows,
      table(
        ['model', 'kind', 'served by', 'USD/M in', 'USD/M out', 'context', 'output', 'features'],
        rows.map(row => [
          row.model,
          row.demo ? 'demo' : row.kind,
          row.endpoint,
          row.price_per_million_usd.input,
          row.price_per_million_usd.output,
          String(row.context_tokens),
          String(row.max_output_tokens),
          row.features.join(' '),
        ]),
        'No models are offered. Declare endpoints in switchyard.yaml or add hosters.',
      ),
    )
  })
}

function review(): Command {
  return createCommand('review', 'List the model ids that hosters name and may not sell', ['model review']).action(
    async options => {
      const session = createSession(options)
      const ids = await withDatabase(session, listUnapprovedIds)
      session.output.result(
        ids.map(({ modelId, state, reason, hosters }) => ({
          model: modelId,
          state,
          reason,
          hosters: hosters.map(({ id, name }) => ({ hoster_id: id, name })),
        })),
        table(
          ['model', 'state', 'hosters', 'reason'],
          ids.map(({ modelId, state, reason, hosters }) => [
            ...[modelId, state, hosters.map(({ name }) => name).join(', '), reason ?? ''],
          ]),
          'No model id waits for an approval.',
        ),
      )
    },
  )
}

const decisions = {
  approve: { state: 'approved', summary: 'Let all hosters sell a model id', done: 'Hosters may sell' },
  refuse: { state: 'refused', summary: 'Let no hoster sell a model id', done: 'No hoster may sell' },
} as const

function decide(name: keyof typeof decisions): Command {
  const { state, summary, done } = decisions[name]
  return createCommand(name, summary, [`model ${name} acme-7b --reason "Its weights are public"`])
    .argument('<model>', 'the id that customers request')
    .requiredOption('--reason <text>', 'for the audit log and the hosters; required', textArgument)
    .action(async (modelId: string, { reason, ...options }) => {
      const session = createSession(options)
      await withDatabase(session, pool =>
        transaction(pool, sql => decideModel(sql, { modelId, state, reason, personId: null }, null)),
      )
      session.output.result({ model: modelId, state }, `${done} ${modelId}.`)
    })
}

/** Returns the configured, detected and demo offers, as startup would find them. */
async function gatheredOffers({ config }: Session): Promise<readonly Offer[]> {
  // Imported on demand, because the demo's tokenizer takes longer to load than everything else in the command
  // line.
  const { gatherOffers } = await import('../start/gather-offers.ts')
  const supply = await gatherOffers(withRunningPort(config))
  await supply.close()
  return supply.offers
}

/** Returns what the database has: the offers of hosters, and those of managed providers. */
function storedOffers(session: Session): Promise<{ hosted: readonly Offer[]; managed: readonly Offer[] }> {
  const onProblem = session.output.note
  return withDatabase(session, async pool => {
    const masterKeys = await requireMasterKeys(session, pool)
    const allowPrivateHosters = session.config.hosters.allowPrivateUrls
    const { offers: hosted } = await readHosterOffers(pool, {
      masterKeys,
      nowMs: Date.now(),
      allowPrivateHosters,
      onProblem,
    })
    return { hosted, managed: await readProviderOffers(pool, { masterKeys, readEndpoint, onProblem }) }
  })
}
