import { t } from '@lingui/core/macro'
import { Button, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { AddedPasskey, PasskeyShown } from '#api/passkeys.ts'
import { makePasskey, type PasskeyOptions } from '../../api/passkeys.ts'
import { consoleConfigQuery, factorsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { browserName } from './browser-name.ts'
import { StoredCodes } from './StoredCodes.tsx'
import styles from './settings.module.css'

/** The passkeys of the person: added, named and removed. */
export function Passkeys() {
  const factors = useQuery(factorsQuery)
  const { data: config } = useQuery(consoleConfigQuery)
  const [codes, setCodes] = useState<readonly string[] | null>(null)
  const [renamed, setRenamed] = useState<PasskeyShown | null>(null)
  const [removed, setRemoved] = useState<PasskeyShown | null>(null)
  const areas = ['factors', 'sessions', 'session']
  const add = useWrite<unknown, AddedPasskey>(
    passkey => ({
      method: 'POST',
      path: 'factors/passkeys',
      body: { passkey, name: browserName(navigator.userAgent) },
    }),
    {
      areas,
      done: t`The passkey is added.`,
      onDone: ({ recovery_codes }) => setCodes(recovery_codes),
      showsError: true,
    },
  )
  const start = useWrite<void, PasskeyOptions>(() => ({ method: 'POST', path: 'factors/passkeys/start', body: {} }), {
    areas: [],
    showsError: true,
    onDone: options => make(options),
  })
  const [problem, setProblem] = useState<Error | null>(null)
  const make = async (options: PasskeyOptions) => {
    setProblem(null)
    try {
      add.mutate(await makePasskey(options))
    } catch (error) {
      setProblem(error as Error)
    }
  }
  const remove = useWrite<string>(id => ({ method: 'DELETE', path: `factors/passkeys/${id}` }), {
    areas,
    done: t`The passkey is removed. Delete it on your device too.`,
    onDone: () => setRemoved(null),
  })
  const hasPasskeys = config?.has_passkeys === true
  return (
    <Panel
      title={t`Passkeys`}
      aside={
        hasPasskeys && (
          <Button
            size="compact-sm"
            loading={start.isPending || add.isPending}
            onClick={() => start.mutate()}
          >{t`Add a passkey`}</Button>
        )
      }
    >
      <Loaded query={factors} height={80}>
        {({ passkeys }) => (
          <div className={styles.block}>
            {codes !== null && <StoredCodes codes={codes} onStored={() => setCodes(null)} />}
            <p className={styles.hint}>
              {hasPasskeys
                ? t`A passkey signs you in with a finger, a face or a PIN. No other site can ask for it.`
                : t`Passkeys need a domain name with HTTPS, or this page at http://localhost.`}
            </p>
            <FormProblem error={problem ?? start.error ?? add.error} />
            {passkeys.length > 0 && (
              <DataTable
                label={t`Passkeys`}
                rows={passkeys}
                keyOf={({ id }) => id}
                columns={[
                  { title: t`Name`, place: 'name', cell: ({ name }) => name, sortBy: ({ name }) => name },
                  {
                    title: t`Added`,
                    cell: ({ created_at }) => <When at={created_at} />,
                    sortBy: ({ created_at }) => created_at,
                  },
                  {
                    title: t`Last used`,
                    cell: ({ last_used_at }) =>
                      last_used_at === null ? t`never` : <When at={last_used_at} form="distance" />,
                    sortBy: ({ last_used_at }) => last_used_at,
                  },
                  {
                    title: '',
                    align: 'right',
                    cell: passkey => (
                      <span className={styles.buttons}>
                        <Button
                          variant="default"
                          size="compact-sm"
                          onClick={() => setRenamed(passkey)}
                        >{t`Rename`}</Button>
                        <Button
                          variant="default"
                          size="compact-sm"
                          onClick={() => setRemoved(passkey)}
                        >{t`Remove`}</Button>
                      </span>
                    ),
                  },
                ]}
              />
            )}
          </div>
        )}
      </Loaded>
      {renamed !== null && <RenameDialog passkey={renamed} onClose={() => setRenamed(null)} />}
      <ConfirmDialog
        isOpen={removed !== null}
        title={t`Remove ${removed?.name ?? ''}?`}
        action={t`Remove the passkey`}
        isBusy={remove.isPending}
        onConfirm={() => removed !== null && remove.mutate(removed.id)}
        onClose={() => setRemoved(null)}
      >
        <p>{t`You can no longer sign in with this passkey. Your sessions stay.`}</p>
      </ConfirmDialog>
    </Panel>
  )
}

function RenameDialog({ passkey, onClose }: { passkey: PasskeyShown; onClose: () => void }) {
  const [name, setName] = useState(passkey.name)
  const rename = useWrite(
    () => ({ method: 'PATCH', path: `factors/passkeys/${passkey.id}`, body: { name: name.trim() } }),
    { areas: ['factors'], onDone: onClose, showsError: true },
  )
  return (
    <FormDialog
      title={t`Rename the passkey`}
      action={t`Save`}
      sending={rename}
      onSubmit={() => rename.mutate()}
      onClose={onClose}
    >
      <TextInput
        label={t`Name`}
        required
        maxLength={200}
        value={name}
        onChange={event => setName(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}
