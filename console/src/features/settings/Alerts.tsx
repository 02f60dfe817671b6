import { t } from '@lingui/core/macro'
import { Button, Modal, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { kindsWithThreshold } from '../../../../src/base/domain/alert-rule.ts'
import { type AlertRule, alertsQuery, consoleConfigQuery, deliveriesQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { readAmount } from '../../format/typed-number.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import styles from './settings.module.css'

const kinds = {
  low_balance: t`The balance falls below`,
  daily_spend: t`The daily spend cap is reached`,
  key_limit_reached: t`A key reaches its limit`,
  large_charge: t`One request costs at least`,
} as const
type Kind = keyof typeof kinds

const POLL_MS = 1_000

/** When the customer gets a message, and where. */
export function Alerts() {
  const customerId = useCustomerId()
  const { mayAlerts } = useRights()
  const alerts = useQuery(alertsQuery(customerId))
  const [isMaking, setMaking] = useState(false)
  const [shown, setShown] = useState<AlertRule | null>(null)
  const remove = useWrite<string>(id => ({ method: 'DELETE', path: `customers/${customerId}/alerts/${id}` }), {
    areas: ['alerts'],
    done: t`The alert is deleted.`,
  })
  const test = useWrite<AlertRule>(
    ({ id }) => ({ method: 'POST', path: `customers/${customerId}/alerts/${id}/test`, body: {} }),
    // The dialog reads again until it knows how the test went.
    { areas: ['deliveries'], onDone: (_, rule) => setShown(rule) },
  )
  return (
    <Panel
      title={t`Alerts`}
      aside={
        mayAlerts && (
          <Button variant="subtle" size="compact-sm" onClick={() => setMaking(true)}>{t`Add an alert`}</Button>
        )
      }
    >
      <Loaded query={alerts} height={120}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={t`No alerts yet. One for a low balance keeps programs from stopping without a warning.`}>
              {mayAlerts && <Button onClick={() => setMaking(true)}>{t`Add an alert`}</Button>}
            </EmptyState>
          ) : (
            <DataTable
              label={t`Alerts`}
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`When`,
                  place: 'name',
                  cell: ({ kind, threshold_usd }) =>
                    `${kinds[kind]}${threshold_usd === null ? '' : ` ${exactUsd(threshold_usd)} USD`}`,
                  sortBy: ({ kind }) => kinds[kind],
                },
                {
                  title: t`Where to`,
                  cell: ({ channel, target }) => `${channel === 'email' ? t`E-mail` : t`Webhook`} ${target}`,
                  sortBy: ({ target }) => target,
                },
                {
                  title: '',
                  align: 'right',
                  cell: rule => (
                    <div className={styles.buttons}>
                      <Button
                        variant="default"
                        size="compact-sm"
                        onClick={() => setShown(rule)}
                      >{t`Deliveries`}</Button>
                      {mayAlerts && (
                        <>
                          <Button variant="default" size="compact-sm" onClick={() => test.mutate(rule)}>
                            {t({ message: 'Test', context: 'alert' })}
                          </Button>
                          <Button
                            variant="default"
                            size="compact-sm"
                            onClick={() => remove.mutate(rule.id)}
                          >{t`Delete`}</Button>
                        </>
                      )}
                    </div>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isMaking && <NewAlert onClose={() => setMaking(false)} />}
      {shown !== null && <Deliveries rule={shown} onClose={() => setShown(null)} />}
    </Panel>
  )
}

function NewAlert({ onClose }: { onClose: () => void }) {
  const customerId = useCustomerId()
  const [kind, setKind] = useState<Kind>('low_balance')
  const [threshold, setThreshold] = useState('5')
  const hasMail = useQuery(consoleConfigQuery).data?.has_mail === true
  const [chosen, setChannel] = useState<string | null>(null)
  const channel = chosen ?? (hasMail ? 'email' : 'webhook')
  const [target, setTarget] = useState('')
  const [secret, setSecret] = useState<string | null>(null)
  const hasThreshold = kindsWithThreshold.includes(kind)
  const make = useWrite<void, { secret: string | null }>(
    () => ({
      method: 'POST',
      path: `customers/${customerId}/alerts`,
      body: {
        kind,
        channel,
        ...(hasThreshold && { threshold_usd: readAmount(threshold) }),
        ...(target.trim() !== '' && { target: target.trim() }),
      },
    }),
    {
      areas: ['alerts'],
      done: t`The alert is added.`,
      onDone: ({ secret: made }) => (made === null ? onClose() : setSecret(made)),
      showsError: true,
    },
  )
  if (secret !== null) {
    return (
      <Modal opened onClose={onClose} title={t`The secret of the webhook`}>
        <div className={styles.form}>
          <p>{t`It signs the messages. This is the only time that it is shown.`}</p>
          <CodeBlock code={secret} what={t`the secret`} />
          <Button onClick={onClose}>{t`I have stored it`}</Button>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog title={t`Add an alert`} action={t`Add`} sending={make} onSubmit={() => make.mutate()} onClose={onClose}>
      <Select
        label={t`When`}
        data={Object.entries(kinds).map(([value, label]) => ({ value, label }))}
        value={kind}
        onChange={value => setKind((value ?? 'low_balance') as Kind)}
      />
      {hasThreshold && (
        <Field name="threshold_usd">
          <AmountField label={t`Threshold in USD`} required value={threshold} onText={setThreshold} />
        </Field>
      )}
      <Select
        label={t`Where to`}
        description={hasMail ? undefined : t`This server sends no mail, so an alert by e-mail would not arrive.`}
        data={[
          { value: 'email', label: t`E-mail to the billing address`, disabled: !hasMail },
          { value: 'webhook', label: t`Webhook` },
        ]}
        value={channel}
        onChange={setChannel}
      />
      {channel === 'webhook' && (
        <Field name="target">
          <TextInput
            label="URL"
            type="url"
            placeholder="https://"
            required
            value={target}
            onChange={event => setTarget(event.currentTarget.value)}
          />
        </Field>
      )}
    </FormDialog>
  )
}

function Deliveries({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const customerId = useCustomerId()
  const deliveries = useQuery({
    ...deliveriesQuery(customerId, rule.id),
    // A test that was just sent has its first attempt within a second or two.
    refetchInterval: ({ state }) => (state.data?.data.some(({ attempts }) => attempts.length === 0) ? POLL_MS : false),
  })
  return (
    <Modal opened onClose={onClose} title={t`Deliveries`} size="lg">
      <Loaded query={deliveries} height={120}>
        {({ data }) =>
          data.length === 0 ? (
            <p>{t`Nothing was sent yet.`}</p>
          ) : (
            <DataTable
              label={t`Deliveries`}
              rows={data}
              keyOf={({ alert_id }) => alert_id}
              columns={[
                {
                  title: t`Time`,
                  cell: ({ created_at }) => <When at={created_at} />,
                  sortBy: ({ created_at }) => created_at,
                },
                {
                  title: t`What`,
                  place: 'name',
                  cell: ({ kind }) => (kind === 'test' ? t({ message: 'Test', context: 'alert' }) : kinds[kind]),
                  sortBy: ({ kind }) => kind,
                },
                {
                  title: t`Outcome`,
                  cell: ({ delivered_at, attempts }) => {
                    const last = attempts.at(-1)
                    if (last?.outcome === 'logged')
                      return <State state="warn">{t`not sent: this server sends no mail`}</State>
                    return (
                      <State state={delivered_at === null ? 'warn' : 'ok'}>
                        {delivered_at === null ? (last?.error ?? t`waiting`) : t`delivered`}
                      </State>
                    )
                  },
                },
              ]}
            />
          )
        }
      </Loaded>
    </Modal>
  )
}
