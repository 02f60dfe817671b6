import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import type { Key } from '#api/keys.ts'
import type { CustomerDetail } from '#api/operator/customers.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { customerQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText } from '../../format/number-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { InviteDialog } from '../../parts/InviteDialog.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance, Charge } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { personColumn } from '../../parts/person-column.ts'
import { State } from '../../parts/State.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import { CustomerPrices } from './CustomerPrices.tsx'
import styles from './operator.module.css'
import { readCustomerSearch } from './operator-search.ts'
import { useMayOperate } from './use-may-operate.ts'

const CustomerKeyDialog = lazy(
  fromGateway(async () => ({ default: (await import('./CustomerKeyDialog.tsx')).CustomerKeyDialog })),
)

const LimitsDialog = lazy(fromGateway(async () => ({ default: (await import('./LimitsDialog.tsx')).LimitsDialog })))
const GrantDialog = lazy(fromGateway(async () => ({ default: (await import('./GrantDialog.tsx')).GrantDialog })))
const CustomerData = lazy(fromGateway(async () => ({ default: (await import('./PersonalData.tsx')).CustomerData })))
const ChangeKeyDialog = lazy(
  fromGateway(async () => ({ default: (await import('./CustomerKeyDialog.tsx')).ChangeKeyDialog })),
)

const texts = {
  makeKey: t`Make a key`,
  pause: t`Pause`,
  resume: t`Resume`,
  isPaused: t`paused`,
  paused: t`The key is paused. All nodes refuse it within two seconds.`,
  resumed: t`The key works again.`,
} as const

const roles = ['owner', 'developer', 'billing', 'viewer'].map(value => ({
  value,
  label: codeText(value),
}))

/** One customer as the operator sees it. */
export function Customer() {
  const customerId = useParams({ strict: false }).customerId!
  const customer = useQuery(customerQuery(customerId))
  return (
    <Page
      title={customer.data?.email ?? t`Customer`}
      actions={<Link to="/c/$customerId" params={{ customerId }}>{t`See what the customer sees`}</Link>}
    >
      <Loaded query={customer} height={640}>
        {data => <Body customer={data} />}
      </Loaded>
    </Page>
  )
}

type Dialog = 'grant' | 'limits' | 'invite' | 'pause' | 'key'

function Body({ customer }: { customer: CustomerDetail }) {
  const mayOperate = useMayOperate()
  const search = readCustomerSearch(useSearch({ strict: false }))
  const [changedKey, setChangedKey] = useState<Key | null>(null)
  const [dialog, setDialog] = useState<Dialog | null>(search.grant === true && mayOperate ? 'grant' : null)
  const navigate = useNavigate()
  const close = () => {
    setDialog(null)
    // A reload must not open the dialog again.
    if (search.grant) void navigate({ to: '.', search: {}, replace: true })
  }
  const isPaused = customer.state === 'paused'
  const pause = useWrite<boolean>(
    paused => ({ method: 'PATCH', path: `operator/customers/${customer.id}`, body: { paused } }),
    {
      areas: ['customers'],
      done: (_, paused) => (paused ? t`The customer is paused.` : t`The customer is active.`),
      onDone: close,
    },
  )
  const pauseKey = useWrite<{ id: string; isPaused: boolean }>(
    ({ id, isPaused }) => ({
      method: 'POST',
      path: `operator/customers/${customer.id}/keys/${id}/${isPaused ? 'resume' : 'pause'}`,
      body: {},
    }),
    { areas: ['customers'], done: (_, { isPaused }) => (isPaused ? texts.resumed : texts.paused) },
  )
  const revoke = useWrite<string>(
    keyId => ({ method: 'DELETE', path: `operator/customers/${customer.id}/keys/${keyId}` }),
    { areas: ['customers'], done: t`The key is revoked. It stops working within two seconds.` },
  )
  return (
    <>
      {mayOperate && customer.state !== 'deleted' && (
        <div className={styles.buttons}>
          <Button onClick={() => setDialog('grant')}>{t`Grant credit`}</Button>
          <Button variant="default" onClick={() => setDialog('limits')}>{t`Change tier and limits`}</Button>
          <Button variant="default" onClick={() => setDialog('invite')}>{t`Invite a person`}</Button>
          <Button variant="default" onClick={() => (isPaused ? pause.mutate(false) : setDialog('pause'))}>
            {isPaused ? t`Make active again` : t`Pause`}
          </Button>
        </div>
      )}
      <Tiles>
        <Tile
          label={t`Balance`}
          figure={
            <>
              <Balance usd={customer.balance_usd} /> USD
            </>
          }
        >
          {customer.held_usd > 0 && (
            <span className={styles.hint}>
              <Trans>{roundUsd(customer.held_usd)} held</Trans>
            </span>
          )}
        </Tile>
        <Tile label={t`Spent today, UTC`} figure={`${roundUsd(customer.spend.today_usd)} USD`} />
        <Tile label={t`Spent this month`} figure={`${roundUsd(customer.spend.month_usd)} USD`} />
        <Tile label={t`Spent in all`} figure={`${roundUsd(customer.spend.total_usd)} USD`} />
      </Tiles>
      <Panel title={t`Customer`}>
        <Facts
          facts={{
            [t`State`]: (
              <State state={customer.state === 'active' ? 'ok' : customer.state === 'paused' ? 'warn' : 'off'}>
                {codeText(customer.state)}
              </State>
            ),
            [t`Tier`]: customer.tier,
            [t`Requests per minute`]: limitText(customer.limits.requests_per_minute, customer.tier),
            [t`Requests per day`]: limitText(customer.limits.requests_per_day, customer.tier),
            [t`Daily spend cap`]: limitText(customer.limits.daily_spend_cap_usd, customer.tier, ' USD'),
            [t`Shares requests for audits`]: customer.shares_requests ? t`yes` : t`no`,
            [t`Since`]: <When at={customer.created_at} form="date" />,
            [t`Id`]: (
              <>
                <code>{customer.id}</code> <CopyButton text={customer.id} what={t`the id of the customer`} />
              </>
            ),
          }}
        />
      </Panel>
      <CustomerPrices customerId={customer.id} mayChange={mayOperate && customer.state !== 'deleted'} />
      <Panel title={t`People`}>
        {customer.members.length + customer.invitations.length === 0 ? (
          <EmptyState text={t`Nobody can sign in for this customer yet. Invite a person.`} />
        ) : (
          <DataTable
            label={t`People`}
            rows={[
              ...customer.members.map(({ email, name, role, since }) => ({
                email,
                name,
                role,
                at: since,
                isMember: true,
              })),
              ...customer.invitations.map(({ email, role, expires_at: at }) => ({
                email,
                name: '',
                role,
                at,
                isMember: false,
              })),
            ]}
            keyOf={({ email, isMember }) => `${email} ${isMember}`}
            columns={[
              personColumn,
              { title: t`Role`, cell: ({ role }) => codeText(role), sortBy: ({ role }) => role },
              {
                title: t`State`,
                cell: ({ isMember, at }) =>
                  isMember ? (
                    <Trans>
                      member since <When at={at} />
                    </Trans>
                  ) : (
                    <Trans>
                      invited; the link ends <When at={at} form="distance" />
                    </Trans>
                  ),
              },
            ]}
          />
        )}
      </Panel>
      <Panel
        title={t`Keys`}
        aside={
          mayOperate &&
          customer.state !== 'deleted' && (
            <Button variant="default" size="compact-sm" onClick={() => setDialog('key')}>
              {texts.makeKey}
            </Button>
          )
        }
      >
        {customer.api_keys.length === 0 ? (
          <EmptyState text={t`This customer has no key.`} />
        ) : (
          <DataTable
            label={t`Keys`}
            rows={customer.api_keys}
            keyOf={({ id }) => id}
            columns={[
              {
                title: t`Key`,
                place: 'name',
                cell: ({ name, hint, paused_at }) => (
                  <>
                    {name} <code>{hint}</code> {paused_at !== null && <State state="warn">{texts.isPaused}</State>}
                  </>
                ),
                sortBy: ({ name }) => name,
              },
              {
                title: t`Limit`,
                align: 'right',
                cell: limitOfKey,
                sortBy: ({ limit_usd }) => limit_usd,
              },
              {
                title: t`Works until`,
                cell: ({ expires_at }) => (expires_at === null ? '–' : <When at={expires_at} />),
                sortBy: ({ expires_at }) => expires_at,
              },
              {
                title: t`This month`,
                align: 'right',
                cell: ({ usage }) => <Charge usd={usage.month_usd} />,
                sortBy: ({ usage }) => usage.month_usd,
              },
              {
                title: t`In all`,
                align: 'right',
                place: 'figure',
                cell: ({ usage }) => <Charge usd={usage.total_usd} />,
                sortBy: ({ usage }) => usage.total_usd,
              },
              {
                title: '',
                align: 'right',
                place: 'actions',
                cell: key => {
                  const { id, name, paused_at } = key
                  return (
                    mayOperate && (
                      <div className={styles.buttons}>
                        <Button variant="default" size="compact-sm" onClick={() => setChangedKey(key)}>
                          <Trans>
                            Change<span className="visually-hidden"> {name}</span>
                          </Trans>
                        </Button>
                        <Button
                          variant="default"
                          size="compact-sm"
                          onClick={() => pauseKey.mutate({ id, isPaused: paused_at !== null })}
                        >
                          {paused_at === null ? texts.pause : texts.resume}
                          <span className="visually-hidden"> {name}</span>
                        </Button>
                        <Button variant="default" size="compact-sm" onClick={() => revoke.mutate(id)}>
                          <Trans>
                            Revoke<span className="visually-hidden"> {name}</span>
                          </Trans>
                        </Button>
                      </div>
                    )
                  )
                },
              },
            ]}
          />
        )}
      </Panel>
      {mayOperate && customer.state !== 'deleted' && (
        <Suspense>
          <CustomerData customer={customer} />
        </Suspense>
      )}
      {dialog === 'grant' && (
        <Suspense>
          <GrantDialog customer={customer} onClose={close} />
        </Suspense>
      )}
      {dialog === 'limits' && (
        <Suspense>
          <LimitsDialog customer={customer} onClose={close} />
        </Suspense>
      )}
      {dialog === 'key' && (
        <Suspense>
          <CustomerKeyDialog customerId={customer.id} onClose={close} />
        </Suspense>
      )}
      {changedKey !== null && (
        <Suspense>
          <ChangeKeyDialog customerId={customer.id} edited={changedKey} onClose={() => setChangedKey(null)} />
        </Suspense>
      )}
      {dialog === 'invite' && (
        <InviteDialog
          path={`operator/customers/${customer.id}/invites`}
          areas={['customers']}
          roles={roles}
          firstRole="owner"
          onClose={close}
        />
      )}
      <ConfirmDialog
        isOpen={dialog === 'pause'}
        title={t`Pause ${customer.email ?? customer.id}?`}
        action={t`Pause the customer`}
        isBusy={pause.isPending}
        onConfirm={() => pause.mutate(true)}
        onClose={close}
      >
        <p>{t`All keys of this customer get an error until you make the customer active again. Running requests finish.`}</p>
      </ConfirmDialog>
    </>
  )
}

function limitText({ value, own }: { value: number; own: number | null }, tier: string, unit = ''): string {
  return `${countText(value)}${unit}${own === null ? t` (tier ${tier})` : t` (its own)`}`
}

function limitOfKey({ limit_usd: limit, spent_usd }: Key) {
  return limit === null ? t`none` : t`${roundUsd(spent_usd ?? 0)} of ${roundUsd(limit)} USD`
}
