import { plural, t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import type { OperatorModels } from '#api/operator/supply.ts'
import { operatorModelsQuery, pricesQuery } from '../../api/operator-queries.ts'
import { compactCount, countText, durationText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { offerWarnings } from './offer-warnings.ts'
import styles from './operator.module.css'
import { readSupplySearch } from './operator-search.ts'
import { PriceText } from './PriceText.tsx'
import { ServerAttempts, ServerError } from './ServerAttempts.tsx'
import { ServerState } from './ServerState.tsx'
import { UnapprovedModels } from './UnapprovedModels.tsx'

type SoldModel = OperatorModels['data'][number]

/** The gateway lists no more versions of prices. */
const VERSIONS_MAX = 200

/** What is sold: the servers and prices of each model, what is wrong with them, and how hosters' prices changed. */
export function Models() {
  const { model } = readSupplySearch(useSearch({ strict: false }))
  const models = useQuery(operatorModelsQuery)
  return (
    <Page title={t`Models`} actions={model !== undefined && <Link to="/operator/models">{t`All models`}</Link>}>
      <Loaded query={models} height={480}>
        {({ data }) => <Sold models={data} only={model} />}
      </Loaded>
      <UnapprovedModels />
      <PriceVersions model={model} />
    </Page>
  )
}

function Sold({ models, only }: { models: readonly SoldModel[]; only: string | undefined }) {
  const shown = only === undefined ? models : models.filter(({ id }) => id === only)
  const warnings = shown.flatMap(offerWarnings)
  if (models.length === 0) {
    return (
      <Panel>
        <EmptyState text={t`No model is sold yet. Add a provider, or start Ollama on this machine.`}>
          <Link to="/operator/providers">{t`Providers`}</Link>
        </EmptyState>
      </Panel>
    )
  }
  return (
    <>
      {warnings.length > 0 && (
        <Panel title={t`Warnings`}>
          <ul className={styles.alarms}>
            {warnings.map(({ severity, text }) => (
              <li key={text}>
                <State state={severity}>{severity === 'danger' ? t`Alarm` : t`Warning`}</State>
                <span>{text}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <Panel
        title={plural(shown.length, { one: '# model', other: '# models' })}
        aside={<span className={styles.hint}>{t`Prices in USD per million tokens, input / output`}</span>}
      >
        {shown.length === 0 ? (
          <EmptyState text={t`No server offers ${only ?? ''}.`}>
            <Link to="/operator/models">{t`All models`}</Link>
          </EmptyState>
        ) : (
          <DataTable
            label={t`Models`}
            rows={shown.flatMap(({ id, offers }) => offers.map(offer => ({ model: id, ...offer })))}
            keyOf={({ model, endpoint_id }) => `${model} ${endpoint_id}`}
            columns={[
              {
                title: t`Model`,
                place: 'name',
                cell: ({ model }) => (
                  <Link to="/operator/models" search={{ model }}>
                    {model}
                  </Link>
                ),
                sortBy: ({ model }) => model,
              },
              {
                title: t`Server`,
                cell: ({ name, provider }) => <Provider kind={provider} label={name} />,
                sortBy: ({ name }) => name,
              },
              { title: t`State`, cell: ({ state }) => <ServerState state={state} />, sortBy: ({ state }) => state },
              {
                title: t`Attempts today`,
                cell: server => <ServerAttempts model={server.model} server={server} />,
                sortBy: ({ attempts_today: attempts }) => attempts,
              },
              { title: t`Last error`, cell: ({ last_error }) => <ServerError error={last_error} /> },
              {
                title: t`First token`,
                align: 'right',
                cell: ({ first_token_p50_ms: ms }) => (ms === null ? '–' : durationText(ms)),
                sortBy: ({ first_token_p50_ms: ms }) => ms,
              },
              {
                title: t`Context`,
                align: 'right',
                cell: ({ context_tokens }) => compactCount(context_tokens),
                sortBy: ({ context_tokens }) => context_tokens,
              },
              {
                title: t`Trust`,
                align: 'right',
                cell: ({ trust_score }) => (trust_score === null ? '–' : trust_score.toFixed(2)),
                sortBy: ({ trust_score }) => trust_score,
              },
              {
                title: t`Price`,
                align: 'right',
                place: 'figure',
                cell: offer => <PriceText price={offer} />,
                sortBy: ({ input_usd_per_million, output_usd_per_million }) =>
                  input_usd_per_million + output_usd_per_million,
              },
            ]}
          />
        )}
      </Panel>
    </>
  )
}

function PriceVersions({ model }: { model: string | undefined }) {
  const prices = useQuery(pricesQuery(model))
  return (
    <Panel
      title={t`Prices of hosters`}
      aside={<span className={styles.hint}>{t`A running request keeps the price it began with`}</span>}
    >
      <Loaded query={prices} height={160}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState
              text={t`No hoster has set a price. The prices of your own servers and of clouds are on the page Providers.`}
            />
          ) : (
            <DataTable
              label={t`Price versions`}
              hasMore={data.length >= VERSIONS_MAX}
              rows={data}
              keyOf={({ hoster_id, model: id, version }) => `${hoster_id} ${id} ${version}`}
              columns={[
                {
                  title: t`Model`,
                  place: 'name',
                  cell: each => (
                    <Link to="/operator/models" search={{ model: each.model }}>
                      {each.model}
                    </Link>
                  ),
                  sortBy: ({ model }) => model,
                },
                {
                  title: t`Hoster`,
                  cell: ({ hoster }) => <Provider kind="hoster" label={hoster} />,
                  sortBy: ({ hoster }) => hoster,
                },
                {
                  title: t`Version`,
                  align: 'right',
                  cell: ({ version }) => countText(version),
                },
                {
                  title: t`From`,
                  cell: ({ valid_from }) => <When at={valid_from} />,
                  sortBy: ({ valid_from }) => valid_from,
                },
                {
                  title: t`Until`,
                  cell: ({ valid_until }) =>
                    valid_until === null ? <State state="ok">{t`current`}</State> : <When at={valid_until} />,
                },
                {
                  title: t`Price`,
                  align: 'right',
                  place: 'figure',
                  cell: price => <PriceText price={price} />,
                  sortBy: each => each.input_usd_per_million + each.output_usd_per_million,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}
