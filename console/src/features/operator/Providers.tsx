import { plural, t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { fromGateway } from '../../api/gateway-link.ts'
import { providersQuery } from '../../api/operator-queries.ts'
import { countText, shareText } from '../../format/number-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import type { ShownProvider } from './model-entries.ts'
import styles from './operator.module.css'
import { PriceText } from './PriceText.tsx'
import { ReasonDialog } from './ReasonDialog.tsx'
import { ServerState } from './ServerState.tsx'
import { useMayOperate } from './use-may-operate.ts'

// The list is there before its dialogs, which are half of the code.
const AddProviderDialog = lazy(
  fromGateway(async () => ({ default: (await import('./AddProviderDialog.tsx')).AddProviderDialog })),
)
const dialogs = fromGateway(() => import('./ProviderDialogs.tsx'))
const ProviderModelsDialog = lazy(async () => ({ default: (await dialogs()).ProviderModelsDialog }))
const ProviderKeyDialog = lazy(async () => ({ default: (await dialogs()).ProviderKeyDialog }))
const ProviderBudgetDialog = lazy(async () => ({ default: (await dialogs()).ProviderBudgetDialog }))
const ProviderRulesDialog = lazy(async () => ({ default: (await dialogs()).ProviderRulesDialog }))
const ProviderSettingsDialog = lazy(async () => ({ default: (await dialogs()).ProviderSettingsDialog }))

type ShownModel = ShownProvider['models'][number]

const origins = { managed: t`managed here`, file: t`from switchyard.yaml`, found: t`found by itself` } as const

/** The servers of the operator and the clouds: added, priced, tried, enabled and disabled here. */
export function Providers() {
  const mayOperate = useMayOperate()
  const [isAdding, setAdding] = useState(false)
  const providers = useQuery(providersQuery)
  return (
    <Page
      title={t`Providers`}
      actions={mayOperate && <Button onClick={() => setAdding(true)}>{t`Add a provider`}</Button>}
    >
      <Loaded query={providers} height={480}>
        {({ data, library }) => (
          <>
            {data.length === 0 && (
              <Panel>
                <EmptyState text={t`There is no provider yet. Add a cloud or one of your servers.`} />
              </Panel>
            )}
            {data.map(provider => (
              <ProviderPanel key={`${provider.origin} ${provider.name}`} provider={provider} />
            ))}
            <p className={styles.hint}>
              <Trans>
                List prices and limits are proposed from {library.name} {library.version} of {library.date}. Nothing
                applies them by itself.
              </Trans>
            </p>
          </>
        )}
      </Loaded>
      <Suspense>{isAdding && <AddProviderDialog onClose={() => setAdding(false)} />}</Suspense>
    </Page>
  )
}

type Asked = 'switch' | 'remove' | 'key' | 'models' | 'budget' | 'rules' | 'settings' | ShownModel

function ProviderPanel({ provider }: { provider: ShownProvider }) {
  const { name, title, origin, kind, base_url, is_enabled, problem, changed_at, reason, version, models } = provider
  const mayOperate = useMayOperate() && origin === 'managed'
  const [asked, setAsked] = useState<Asked | null>(null)
  const close = () => setAsked(null)
  return (
    <Panel
      title={<Provider kind={kind} label={name} />}
      aside={
        mayOperate && (
          <span className={styles.buttons}>
            <Button size="xs" variant="default" onClick={() => setAsked('models')}>{t`Models and prices`}</Button>
            <Button size="xs" variant="default" onClick={() => setAsked('rules')}>{t`New models`}</Button>
            <Button size="xs" variant="default" onClick={() => setAsked('budget')}>{t`Budget and weight`}</Button>
            <Button size="xs" variant="default" onClick={() => setAsked('key')}>{t`Replace the key`}</Button>
            <Button size="xs" variant="default" onClick={() => setAsked('settings')}>{t`Settings`}</Button>
            <Button size="xs" variant="default" onClick={() => setAsked('switch')}>
              {is_enabled ? t`Disable` : t`Enable`}
            </Button>
            <Button size="xs" variant="danger" onClick={() => setAsked('remove')}>{t`Remove`}</Button>
          </span>
        )
      }
    >
      <p className={styles.hint}>
        {[title, base_url, origins[origin], plural(models.length, { one: '# model', other: '# models' })]
          .filter(Boolean)
          .join(' · ')}
        {changed_at !== null && (
          <>
            {t` · version `}
            {version}, <When at={changed_at} />: {reason}
          </>
        )}
      </p>
      <p className={styles.hint}>
        <Trans>
          Costs you {chargeText(provider.spent_this_month_usd)} this month
          {provider.monthly_budget_usd !== null && t` of a budget of ${chargeText(provider.monthly_budget_usd)}`}.
        </Trans>
        {kind === 'cloud' &&
          models.some(({ cost }) => cost === null) &&
          t` Models whose cost you have not entered count with their price.`}
      </p>
      {provider.ask_problem !== null && (
        <State state="warn">{t`not asked for new models: ${provider.ask_problem}`}</State>
      )}
      {provider.proposed_models.length > 0 && (
        <p className={styles.hint}>
          <Trans>
            <Plural value={provider.proposed_models.length} one="# new model" other="# new models" /> by its rules:{' '}
            {provider.proposed_models
              .slice(0, 5)
              .map(({ id }) => id)
              .join(', ')}
            {provider.proposed_models.length > 5 && ', …'}. Choose under “Models and prices” what you sell.
          </Trans>
        </p>
      )}
      {provider.is_budget_spent && (
        <State state="danger">{t`its budget is spent: no request goes here until next month or a higher budget`}</State>
      )}
      {problem !== null && <State state="danger">{problem}</State>}
      {!is_enabled && <State state="off">{t`disabled: no new request goes here`}</State>}
      <Models provider={provider} onSwitch={mayOperate ? setAsked : undefined} />
      <Suspense>
        {asked === 'models' && <ProviderModelsDialog provider={provider} onClose={close} />}
        {asked === 'key' && <ProviderKeyDialog provider={provider} onClose={close} />}
        {asked === 'rules' && <ProviderRulesDialog provider={provider} onClose={close} />}
        {asked === 'budget' && <ProviderBudgetDialog provider={provider} onClose={close} />}
        {asked === 'settings' && <ProviderSettingsDialog provider={provider} onClose={close} />}
      </Suspense>
      {asked === 'switch' && (
        <ReasonDialog
          title={`${is_enabled ? t`Disable` : t`Enable`} ${name}`}
          action={is_enabled ? t`Disable` : t`Enable`}
          isDanger={is_enabled}
          reader={t`The audit log keeps it.`}
          send={text => ({
            method: 'PATCH',
            path: `operator/providers/${name}`,
            body: { is_enabled: !is_enabled, reason: text },
          })}
          done={is_enabled ? t`${name} gets no new requests.` : t`${name} gets requests.`}
          onClose={close}
        >
          {is_enabled
            ? t`No new request goes there. Running requests end as they began.`
            : t`New requests go there within a second.`}
        </ReasonDialog>
      )}
      {asked === 'remove' && version !== null && (
        <ReasonDialog
          title={t`Remove ${name}`}
          action={t`Remove`}
          isDanger
          reader={t`The audit log keeps it.`}
          send={text => ({
            method: 'DELETE',
            path: `operator/providers/${name}`,
            body: { version, reason: text },
          })}
          done={t`${name} is removed.`}
          onClose={close}
        >{t`Its models are no longer sold there, and its key is deleted. Running requests end as they began. To stop it for a while, disable it instead.`}</ReasonDialog>
      )}
      {asked !== null && typeof asked === 'object' && (
        <ReasonDialog
          title={t`${asked.is_enabled ? t`Disable` : t`Enable`} ${asked.id} at ${name}`}
          action={asked.is_enabled ? t`Disable` : t`Enable`}
          isDanger={asked.is_enabled}
          reader={t`The audit log keeps it.`}
          send={text => ({
            method: 'PATCH',
            path: `operator/providers/${name}`,
            body: { is_enabled: !asked.is_enabled, model: asked.id, reason: text },
          })}
          done={asked.is_enabled ? t`${name} gets no new requests for ${asked.id}.` : t`${name} serves ${asked.id}.`}
          onClose={close}
        >
          {asked.is_enabled
            ? t`New requests for this model go to its other servers, if it has any. Running requests end as they began.`
            : t`New requests for this model may go there within a second.`}
        </ReasonDialog>
      )}
    </Panel>
  )
}

function Models({
  provider: { name, models },
  onSwitch,
}: {
  provider: ShownProvider
  onSwitch: ((model: ShownModel) => void) | undefined
}) {
  return (
    <DataTable
      label={t`Models of ${name}`}
      rows={models}
      keyOf={({ id }) => id}
      columns={[
        {
          title: t`Model`,
          place: 'name',
          cell: ({ id, weight }) => (weight === 100 ? id : t`${id} · weight ${weight}`),
          sortBy: ({ id }) => id,
        },
        {
          title: t`State`,
          cell: ({ is_enabled, server }) =>
            is_enabled && server !== null ? (
              <ServerState state={server.state} />
            ) : (
              <State state="off">{is_enabled ? t`not offered` : t`disabled`}</State>
            ),
        },
        {
          title: t`Running`,
          align: 'right',
          cell: ({ server }) => (server === null ? '–' : countText(server.in_flight)),
          sortBy: ({ server }) => server?.in_flight ?? null,
        },
        {
          title: t`Answered today`,
          align: 'right',
          cell: ({ server }) =>
            server === null || server.ok_share === null
              ? '–'
              : t`${shareText(server.ok_share)} of ${countText(server.answered_today)}`,
          sortBy: ({ server }) => server?.ok_share ?? null,
        },
        {
          title: t`Costs you`,
          align: 'right',
          cell: ({ cost, list_price }) => (
            <>
              {cost === null ? '–' : <PriceText price={cost} />}
              {list_price !== null && (
                <State state="warn">{t`the list says ${list_price.input_usd_per_million} / ${list_price.output_usd_per_million}`}</State>
              )}
            </>
          ),
        },
        {
          title: t`Sold for`,
          align: 'right',
          place: 'figure',
          cell: model => (
            <>
              <PriceText price={model.price} />
              {isBelowCost(model) && <State state="danger">{t`below cost`}</State>}
            </>
          ),
          sortBy: ({ price }) => price.input_usd_per_million + price.output_usd_per_million,
        },
        {
          title: '',
          place: 'actions',
          cell: model =>
            onSwitch && (
              <Button
                size="xs"
                variant="default"
                aria-label={t`${model.is_enabled ? t`Disable` : t`Enable`} ${model.id} at ${name}`}
                onClick={() => onSwitch(model)}
              >
                {model.is_enabled ? t`Disable` : t`Enable`}
              </Button>
            ),
        },
      ]}
    />
  )
}

function isBelowCost({ price, cost }: ShownModel): boolean {
  if (cost === null) return false
  return (
    price.input_usd_per_million < cost.input_usd_per_million ||
    price.output_usd_per_million < cost.output_usd_per_million
  )
}
