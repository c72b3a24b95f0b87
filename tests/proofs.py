"""Which tests prove which row, where a test is named for what it says and not for its row: row -> parts of test ids.

A row of these families that no test proves fails a run of all tests (rows.py). What is missing of the numbers is proved
by tests that carry their row in their ids, or decided otherwise.
"""

from __future__ import annotations

CASE = "test_a_reply_gives_what_is_wanted_in_whatever_pieces["
SERVER = "test_a_bad_server_is_turned_down_with_its_file_and_key["
TOML = "test_a_bad_toml_file_is_turned_down_with_its_name_and_the_place["
JSON = "test_a_bad_json_file_is_turned_down_with_its_name_and_the_place["
HOSTILE = "test_a_file_that_is_made_to_take_for_ever_is_judged_at_once["
LINE = "test_what_is_wrong_with_a_command_line_is_said_and_what_was_meant["
SLASH = "test_a_bad_line_is_told_what_is_wrong_with_it["
LEFT = "test_what_was_said_is_kept_and_nothing_is_left["

Proofs = dict[str, tuple[str, ...]]

FAULTS: Proofs = {
    "F48": (f"{LEFT}the terminal goes away", f"{LEFT}SIGHUP"),
    "F49": (f"{LEFT}SIGTERM-a call]",),
    "F50": ("test_ctrl_c_is_for_the_chat_and_no_server_hears_of_it[",),
    "F51": ("test_an_impatient_person_gets_out_of_a_stuck_call",),
    "F52": ("test_after_a_stop_and_fg_the_terminal_and_the_servers_are_as_before",),
    "F53": ("test_a_reader_that_goes_away_ends_the_turn_quietly", "test_a_reader_who_leaves_early_is_no_trouble["),
    "F54": ("test_the_end_of_the_keys_is_no_consent[",),
    "F55": (
        "test_a_full_disk_is_told_once_and_nothing_said_meanwhile_is_lost",
        "test_a_full_disk_is_told_once_and_nothing_is_missing_when_there_is_space_again",
    ),
    "F56": ("test_a_killed_writer_loses_at_most_the_record_it_was_at",),
    "F57": (
        "test_a_torn_end_is_put_aside",
        "test_a_file_cut_at_every_byte_opens_and_continues",
        "test_a_damaged_line_is_counted_and_the_others_are_read[",
    ),
    "F58": ("test_a_second_chat_goes_on_in_a_copy", "test_one_program_writes_a_session_at_a_time"),
    "F63": (
        "test_a_clock_that_is_set_while_a_call_waits_ends_no_wait_early_or_late[",
        "test_sessions_of_one_moment_are_apart_and_each_is_whole",
    ),
    "F65": ("test_a_client_with_little_memory_refuses_100_mb_all_the_same",),
    "F66": (
        "test_an_engine_that_fails_leaves_a_whole_history",
        "test_a_session_in_which_the_model_failed_goes_on",
        "test_a_worker_that_is_killed_is_an_error_and_not_the_end",
    ),
    "F67": (
        "test_a_model_that_calls_for_ever_is_stopped_after_three_equal_calls",
        "test_a_model_that_calls_otherwise_each_time_is_stopped_after_its_rounds",
    ),
    "F89": ("test_only_a_certificate_that_is_valid_for_this_host_now_is_taken[", "test_a_certificate_that_nobody_"),
    "F90": (
        "test_a_name_of_the_internet_that_comes_to_lead_to_this_machine_is_sent_nothing[",
        "test_the_other_end_of_a_connection_is_judged_by_its_own_address[",
        "test_a_link_local_address_is_never_called[",
    ),
    "F91": ("test_a_web_page_does_not_come_in_under_a_foreign_name[",),
    "F94": (
        "test_a_prompt_reaches_the_cli_as_it_is_whatever_it_looks_like",
        "test_a_prompt_that_is_none_starts_nothing[",
        "test_a_prompt_is_in_no_process_list",
    ),
    "F95": ("test_no_file_takes_time_memory_or_a_way_out", "test_only_files_of_the_given_folders_go_along"),
    "F96": (
        "test_at_its_timeout_a_run_is_ended_with_its_children_and_the_next_one_goes",
        "test_a_request_that_is_cancelled_ends_the_run_with_its_children_and_is_remembered",
    ),
    "F97": ("test_runs_go_one_at_a_time_in_the_order_they_came_and_are_told_of",),
}

CONFIGURATION: Proofs = {
    "01": ("test_a_configuration_file_that_is_not_there_is_told", "test_a_file_that_cannot_be_read_is_named_with_the"),
    "02": ("test_without_any_file_the_board_server_is_there", "test_without_any_configuration_there_is_the_board_"),
    "03": ("test_a_file_that_says_nothing_gives_the_defaults[",),
    "04": ("test_a_folder_in_place_of_a_file_is_named",),
    "07": (f"{TOML}invalid TOML]", "test_a_bad_file_is_never_passed_over"),
    "08": ("test_a_file_that_cannot_be_read_is_named_with_the_cause[", "test_a_byte_order_mark_is_no_fault["),
    "09": (f"{TOML}a name twice]",),
    "10": (f"{SERVER}name ", f"{SERVER}empty name]", f"{SERVER}long name]", f"{SERVER}no name]"),
    "11": (f"{SERVER}command and url]",),
    "12": (f"{SERVER}neither command nor url]", f"{JSON}no command]"),
    "13": (f"{SERVER}unknown key", f"{TOML}an unknown"),
    "14": (f"{SERVER}args ", f"{SERVER}command as a list]"),
    "15": (f"{SERVER}words in the command]",),
    "16": (f"{SERVER}empty command]", "test_a_nul_that_no_program_can_be_given_is_turned_down["),
    "18": ("test_a_folder_that_is_not_there_is_named",),
    "20": (f"{SERVER}unset variable", f"{TOML}an unset variable in env]", f"{JSON}an unset variable]"),
    "21": ("test_a_url_that_should_not_be_called_is_not[", "test_a_link_local_address_is_never_called["),
    "22": ("test_headers_leave_this_machine_only_encrypted_or_by_leave[",),
    "23": (f"{SERVER}timeout ", f"{TOML}timeout nan]", "test_a_whole_number_too_large_for_a_time_is_turned_down"),
    "25": (
        f"{HOSTILE}a key of 20,000 parts]",
        f"{HOSTILE}quotes that never end]",
        "test_of_a_file_that_is_too_large_no_more_is_read[",
        "test_a_dotted_key_cannot_hide_",
    ),
    "26": (f"{HOSTILE}5,000 nested", "test_deep_nesting_is_called_by_its_name["),
    "27": (f"{TOML}a number of 6,000 digits]", f"{JSON}a number of 6,000 digits]"),
    "28": (f"{TOML}too many servers]", "test_json_names_at_most_so_many_servers_too"),
    "29": (f"{JSON}a comment]", f"{JSON}a trailing comma]", "test_a_key_that_stands_twice_in_json_is_turned_down"),
    "30": ("test_toml_and_json_give_the_same_server[",),
}

COMMAND_LINE: Proofs = {
    "32": (LINE,),
    "33": ("test_a_file_that_is_no_model_is_refused_in_one_line[",),
    "34": ("test_an_unknown_session_is_told_with_the_nearest[", "test_the_beginning_of_an_id_is_enough"),
    "35": (f"{LINE}a prompt of blanks]", "test_a_wrong_command_line_is_told_on_standard_error_with_exit_code_2["),
    "36": ("test_bytes_of_a_prompt_that_are_no_utf_8_are_replaced_and_told[",),
    "37": (
        "test_a_prompt_that_cannot_fit_is_refused_by_its_length",
        "test_a_prompt_without_an_end_is_left_at_its_limit",
    ),
    "38": (f"{LINE}tokens",),
    "40": ("test_a_dumb_terminal_gets_no_sequence_at_all", "test_a_poor_terminal_will_do["),
    "41": ("test_a_size_that_the_environment_makes_up_breaks_nothing[",),
    "42": ("test_another_locale_breaks_nothing[",),
    "43": ("test_without_a_home_the_chat_opens_and_says_once_what_is_not_kept[",),
    "44": (f"{LINE}behind two dashes]",),
    "45": ("test_root_is_told_what_that_means[",),
}

SLASH_COMMANDS: Proofs = {
    "46": (f"{SLASH}46 ",),
    "47": ("test_a_talk_is_written_out_and_nothing_is_written_over",),
    "48": (
        "test_a_file_too_large_to_be_a_session_is_not_read",
        "test_a_damaged_line_is_counted_and_the_others_are_read[",
        "test_damage_is_told_and_the_talk_goes_on",
    ),
    "49": (f"{SLASH}49 ",),
    "50": (f"{SLASH}50 ",),
    "51": (f"{SLASH}51 ",),
    "52": ("test_52_",),
    "53": ("test_53_",),
    "54": ("test_54_",),
    "55": ("test_55_",),
    "56": ("test_56_",),
    "57": ("test_57_",),
}

# Rows whose outcome the table of replies decides otherwise (what is whole but damaged is mended) are not named here.
MARKERS: Proofs = {
    "79": (f"{CASE}json: the end marker in a string]",),
    "81": (f"{CASE}json: a fence inside the markers]",),
    "82": (f"{CASE}json: no end marker at the end of the reply]",),
    "83": ("test_a_json_call_cut_anywhere_is_the_whole_call_or_none[", "test_an_xml_call_cut_anywhere_is_no_call["),
    "87": (f"{CASE}json: arguments that are encoded twice]",),
    "89": ("test_a_number_that_json_does_not_have_is_never_passed_on",),
    "91": ("test_an_unknown_tool_is_told_with_its_neighbours",),
    "92": ("test_a_bare_name_on_two_servers_means_both_and_a_full_name_one",),
    "93": ("test_arguments_are_coerced_to_the_schema_or_told_back",),
    "94": (f"{CASE}xml: a CDATA section]", f"{CASE}xml: entities]"),
    "95": (f"{CASE}xml: single quotes around the names]",),
    "96": (f"{CASE}hermes: ",),
    "98": (f"{CASE}json: two calls, one behind the other]",),
    "101": (f"{CASE}json: a call in a thought, and nothing behind]", "test_a_call_inside_thinking_is_not_run"),
    "102": (f"{CASE}json: an example in a fence with text around]",),
    "103": ("test_a_call_split_anywhere_gives_the_same_events[",),
    "105": (f"{CASE}json: a marker of wide characters]",),
    "106": ("test_who_says_a_result_again_makes_no_call", "test_no_channel_to_the_model_holds_a_call_that_could_"),
    "107": ("test_each_character_of_a_long_call_is_looked_at_a_bounded_number_of_times[",),
    "108": ("test_json_nested_too_deep_is_too_large",),
    "109": ("test_a_number_of_too_many_digits_is_told_in_words_for_a_model",),
    "110": ("test_half_a_surrogate_pair_is_never_passed_on",),
    "111": ("test_a_path_that_leaves_the_folder_is_notable[", "test_a_call_is_shown_in_full"),
}

# Family -> its rows.
PROOFS: dict[str, Proofs] = {
    "other doors: faults of the machine and the network": FAULTS,
    "bad input: configuration": CONFIGURATION,
    "bad input: command line": COMMAND_LINE,
    "bad input: slash commands": SLASH_COMMANDS,
    "bad input: calls in a model's text": MARKERS,
}
