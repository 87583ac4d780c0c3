"""The manual page says what the settings table and the help say."""

from support import SOURCE, CommandTest


class ManualPage(CommandTest):
    def setUp(self):
        super().setUp()
        self.page = (SOURCE / "docs" / "man" / "longshore.1").read_text()

    def test_settings_are_those_of_the_table(self):
        section = self.page.split('.\\" BEGIN SETTINGS\n')[1].split('.\\" END SETTINGS\n')[0]
        self.assertEqual(section, self.longshore("config", "--man").stdout, "run 'make man'")

    def test_every_subcommand_is_described(self):
        text = self.longshore("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0]
        names = [line.split()[0] for line in text.splitlines()]
        self.assertGreaterEqual(len(names), 6)
        for name in names:
            self.assertIn(f"\n.It Cm {name}\n", self.page)

    def test_lines_do_not_start_like_a_request_by_accident(self):
        for line in self.page.splitlines():
            self.assertFalse(line.startswith("'"), line)
            self.assertLess(len(line), 131, line)
