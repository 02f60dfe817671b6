import { t } from '@lingui/core/macro'
import { Menu, useMantineColorScheme } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { sessionQuery } from '../api/queries.ts'
import { request } from '../api/request.ts'
import { chooseLanguage, languages } from '../texts/choose-language.ts'
import { language } from '../texts/i18n.ts'
import { AccountRow } from './AccountRow.tsx'
import styles from './shell.module.css'
import { useSession } from './use-session.ts'

/** The menu of the person: colours and language of the page, the account, sign-out. */
export function AccountMenu() {
  const { person } = useSession()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const client = useQueryClient()
  const signOut = async () => {
    await request('POST', 'sign-out').catch(() => {})
    client.clear()
    await client.invalidateQueries({ queryKey: sessionQuery.queryKey })
    location.assign('/')
  }
  return (
    <Menu position="top-start" width={216}>
      <Menu.Target>
        <button type="button" className={styles.account}>
          <AccountRow name={person.name === '' ? person.email : person.name} />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{person.email}</Menu.Label>
        {(['light', 'dark', 'auto'] as const).map(scheme => (
          <Menu.Item
            key={scheme}
            onClick={() => setColorScheme(scheme)}
            rightSection={colorScheme === scheme ? '✓' : undefined}
          >
            {{ light: t`Light`, dark: t`Dark`, auto: t`Same as the system` }[scheme]}
          </Menu.Item>
        ))}
        <Menu.Divider />
        {languages.map(({ value, label }) => (
          <Menu.Item
            key={value}
            lang={value}
            onClick={() => chooseLanguage(value)}
            rightSection={language === value ? '✓' : undefined}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item component={Link} to="/account">{t`Your account`}</Menu.Item>
        <Menu.Item component={Link} to="/h/apply">{t`Become a hoster`}</Menu.Item>
        <Menu.Item onClick={signOut}>{t`Sign out`}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}
