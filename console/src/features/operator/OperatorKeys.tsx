import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Checkbox, NumberInput, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { OperatorKeyShown } from '#api/operator/keys.ts'
import { operatorKeysQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { Field } from '../../parts/FormFields.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import { useMayOperate } from './use-may-operate.ts'

const scopes = [
  { value: 'read', label: t`read`, description: t`Reads everything.` },
  { value: 'customers', label: t`customers`, description: t`Adds and changes customers, and revokes their keys.` },
  { value: 'money', label: t`money`, description: t`Grants, refunds, payments, vouchers and payouts.` },
  { value: 'supply', label: t`supply`, description: t`Hosters, providers, models and prices.` },
  { value: 'settings', label: t`settings`, description: t`Blocks people, and changes the installation.` },
]

/** The keys of the operator API: makes one for oneself, and revokes them. */
export function OperatorKeys() {
  const mayOperate = useMayOperate()
  const keys = useQuery(operatorKeysQuery)
  const [isMaking, setMaking] = useState(false)
  const [revoked, setRevoked] = useState<OperatorKeyShown | null>(null)
  const revoke = useWrite<OperatorKeyShown>(({ id }) => ({ method: 'DELETE', path: `operator/keys/${id}` }), {
    areas: ['operator-keys'],
    done: (_, { name }) => t`${name} is revoked.`,
    onDone: () => setRevoked(null),
  })
  const make = <Button size="compact-sm" onClick={() => setMaking(true)}>{t`Make a key`}</Button>
  return (
    <Panel title={t`Keys of the operator API`} aside={mayOperate && make}>
      <Loaded query={keys} height={80}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={t`There is no key. Programs use one for the addresses under /v1/admin.`} />
          ) : (
            <DataTable
              label={t`Keys of the operator API`}
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Key`,
                  place: 'name',
                  cell: ({ name, hint }) => (
                    <>
                      {name} <code>{hint}</code>
                    </>
                  ),
                  sortBy: ({ name }) => name,
                },
                { title: t`Person`, cell: ({ person }) => person.email, sortBy: ({ person }) => person.email },
                { title: t`Scopes`, cell: ({ scopes }) => scopes.map(codeText).join(', ') },
                {
                  title: t`Expires`,
                  cell: ({ expires_at: at }) => (at === null ? t`never` : <When at={at} form="distance" />),
                  sortBy: ({ expires_at }) => expires_at,
                },
                {
                  title: t`Last used`,
                  cell: ({ last_used_at: at }) => (at === null ? t`never` : <When at={at} form="distance" />),
                  sortBy: ({ last_used_at }) => last_used_at,
                },
                {
                  title: '',
                  align: 'right',
                  place: 'actions',
                  cell: key =>
                    mayOperate && (
                      <Button variant="default" size="compact-sm" onClick={() => setRevoked(key)}>
                        <Trans>
                          Revoke<span className="visually-hidden"> {key.name}</span>
                        </Trans>
                      </Button>
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isMaking && <NewOperatorKey onClose={() => setMaking(false)} />}
      <ConfirmDialog
        isOpen={revoked !== null}
        title={t`Revoke ${revoked?.name ?? ''}?`}
        name={revoked?.name ?? ''}
        action={t`Revoke the key`}
        isBusy={revoke.isPending}
        onConfirm={() => revoked !== null && revoke.mutate(revoked)}
        onClose={() => setRevoked(null)}
      >
        <p>{t`Programs that use it are refused at once. A revoked key never comes back.`}</p>
      </ConfirmDialog>
    </Panel>
  )
}

/** Makes a key for oneself, and shows it once. */
function NewOperatorKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<string[]>(['read'])
  const [days, setDays] = useState<number | string>(90)
  const [secret, setSecret] = useState<string | null>(null)
  const body = { name, scopes: chosen, expires_in_days: days === '' ? null : days }
  const make = useWrite<void, { key: string }>(() => ({ method: 'POST', path: 'operator/keys', body }), {
    areas: ['operator-keys'],
    onDone: ({ key }) => setSecret(key),
    showsError: true,
  })
  if (secret !== null) return <SecretDialog title={t`The key ${name}`} secret={secret} onClose={onClose} />
  return (
    <FormDialog
      title={t`Make a key`}
      action={t`Make the key`}
      sending={make}
      onSubmit={() => make.mutate()}
      onClose={onClose}
    >
      <Field name="name">
        <TextInput
          label={t`Name`}
          required
          maxLength={200}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
        />
      </Field>
      <Checkbox.Group label={t`Scopes`} value={chosen} onChange={setChosen}>
        {scopes.map(scope => (
          <Checkbox key={scope.value} pt={8} {...scope} />
        ))}
      </Checkbox.Group>
      <Field name="expires_in_days">
        <NumberInput
          label={t`Days until it expires`}
          description={t`Empty: it does not expire`}
          min={1}
          max={3650}
          allowDecimal={false}
          value={days}
          onChange={setDays}
        />
      </Field>
    </FormDialog>
  )
}
