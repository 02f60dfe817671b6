import { t } from '@lingui/core/macro'
import { ActionIcon, Button, Drawer, Menu, TextInput } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormDialog } from '../../parts/FormDialog.tsx'
import { MoreIcon } from '../../parts/icons.tsx'
import { When } from '../../parts/When.tsx'
import { exportedTalk } from './exported-talk.ts'
import styles from './playground.module.css'
import { type SavedTalk, TALK_DAYS_MAX, TALKS_MAX, type TalkHead, type TalkStore, talkStore } from './talk-store.ts'

/** The talks that this browser keeps: opened, renamed, saved as a file, deleted. */
export function SavedTalks({
  owner,
  openId,
  onOpen,
  onDelete,
  onClose,
}: {
  owner: string
  /** The talk that the page shows. */
  openId: string
  onOpen: (talk: SavedTalk) => void
  /** That talk was deleted. */
  onDelete: () => void
  onClose: () => void
}) {
  const [store, setStore] = useState<TalkStore | null>(null)
  const [heads, setHeads] = useState<readonly TalkHead[] | null>(null)
  const [renamed, setRenamed] = useState<TalkHead | null>(null)
  const [deleted, setDeleted] = useState<readonly TalkHead[]>([])

  const read = async () => {
    const found = await talkStore()
    setStore(found)
    setHeads(await found.list(owner))
  }
  useEffect(() => void read(), [owner])

  const open = async (id: string) => {
    const talk = await store!.read(id)
    if (talk === undefined) return read()
    onOpen(talk)
    onClose()
  }
  const remove = async () => {
    await store!.remove(deleted.map(({ id }) => id))
    setDeleted([])
    await read()
    if (deleted.some(({ id }) => id === openId)) onDelete()
  }

  return (
    <Drawer opened onClose={onClose} title={t`Talks`}>
      <div className={styles.saved}>
        <p className={styles.hint}>
          {store?.isKept === false
            ? t`This browser keeps nothing in this window. Talks end with the tab.`
            : t`Only this browser has them, also after you sign out. It keeps the last ${TALKS_MAX}, for ${TALK_DAYS_MAX} days, and no private ones.`}
        </p>
        {heads?.length === 0 && <EmptyState text={t`No talk yet. The first one appears here when it is answered.`} />}
        <ul className={styles.savedList}>
          {heads?.map(head => (
            <li key={head.id}>
              <button type="button" className={styles.savedTitle} onClick={() => void open(head.id)}>
                <span>{head.title}</span>
                <span className={styles.savedTime}>
                  <When at={head.changedAt} form="distance" />
                </span>
              </button>
              <Actions head={head}>
                <Menu.Item onClick={() => setRenamed(head)}>{t`Rename`}</Menu.Item>
                <Menu.Item onClick={() => void save(store!, head.id)}>{t`Save as JSON`}</Menu.Item>
                <Menu.Item onClick={() => setDeleted([head])} color="var(--danger)">{t`Delete`}</Menu.Item>
              </Actions>
            </li>
          ))}
        </ul>
        {heads !== null && heads.length > 1 && (
          <div>
            <Button variant="default" onClick={() => setDeleted(heads)}>{t`Delete all`}</Button>
          </div>
        )}
      </div>
      {renamed !== null && (
        <Rename
          head={renamed}
          onRename={async title => {
            await store!.rename(renamed.id, title)
            setRenamed(null)
            await read()
          }}
          onClose={() => setRenamed(null)}
        />
      )}
      <ConfirmDialog
        isOpen={deleted.length > 0}
        title={deleted.length === 1 ? t`Delete this talk?` : t`Delete all talks?`}
        action={t`Delete`}
        isBusy={false}
        onConfirm={() => void remove()}
        onClose={() => setDeleted([])}
      >
        <p>{t`No other place has a copy. The receipts of its requests stay.`}</p>
      </ConfirmDialog>
    </Drawer>
  )
}

function Actions({ head, children }: { head: TalkHead; children: ReactNode }) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon aria-label={t`Actions of ${head.title}`}>
          <MoreIcon />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  )
}

const TITLE_CHARACTERS_MAX = 100

function Rename({
  head,
  onRename,
  onClose,
}: {
  head: TalkHead
  onRename: (title: string) => void
  onClose: () => void
}) {
  const [title, setTitle] = useState(head.title)
  return (
    <FormDialog
      title={t`Rename the talk`}
      action={t`Rename`}
      isDisabled={title.trim() === ''}
      sending={{ isPending: false, error: null }}
      onSubmit={() => onRename(title.trim())}
      onClose={onClose}
    >
      <TextInput
        label={t`Title`}
        value={title}
        maxLength={TITLE_CHARACTERS_MAX}
        onChange={event => setTitle(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  )
}

async function save(store: TalkStore, id: string): Promise<void> {
  const talk = await store.read(id)
  if (talk === undefined) return
  const blob = new Blob([JSON.stringify(exportedTalk(talk), null, 2)], { type: 'application/json' })
  const url = URL.createObjectURL(blob)
  const name = talk.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '')
  Object.assign(document.createElement('a'), { href: url, download: `${name || 'talk'}.json` }).click()
  // The browser has taken what it saves.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
